use strict; use warnings;
my (%words, @rows);
for my $i (1 .. 120_000) {
    my $key = "key" . ($i * 7919 % 65537);
    push @{ $words{$key} }, $i x (1 + $i % 5);
    delete $words{"key" . ($i * 31 % 65537)} if $i % 3 == 0;
}
@rows = map { $_ . ":" . join(",", @{ $words{$_} }) } sort keys %words;
my $sum = 0;
$sum = ($sum * 33 + unpack("%32C*", $_)) % 4294967291 for @rows;
print scalar(@rows), " $sum\n";
