<?php
// A page whose output depends only on its number: arrays, strings, JSON and regular expressions.
$number = (int)$_GET["n"];
$rows = [];
for ($i = 0; $i < 20000; $i++) {
    $rows[] = ["id" => $i * 7919 % 20011, "name" => str_repeat(chr(97 + $i % 26), 1 + ($i * $number) % 90)];
}
usort($rows, fn($a, $b) => $a["id"] <=> $b["id"]);
$text = json_encode(json_decode(json_encode($rows), true));
$words = preg_match_all('/"([a-m]+)"/', $text, $found);
header("Content-Type: text/plain");
echo $number, " ", md5($text), " ", $words, " ", md5(gzcompress(implode(",", $found[1]), 6)), "\n";
