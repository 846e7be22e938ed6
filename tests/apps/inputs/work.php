<?php
// Arrays, strings, regular expressions and JSON.
mt_srand(7);
$table = [];
for ($i = 0; $i < 150000; $i++) {
    $key = "key" . (mt_rand() % 20000);
    $table[$key][] = str_repeat("x", $i % 300);
    if ($i % 3 == 0) unset($table["key" . (mt_rand() % 20000)]);
}
ksort($table);
$text = json_encode($table);
echo strlen($text), " ", hash("sha256", preg_replace('/x{5,}/', "-", $text)), "\n";
echo count(json_decode($text, true)), " ", md5(gzcompress(serialize($table))), "\n";
