#!/usr/bin/perl
# An index of a text: words by regular expression, lists of places, sorted and written as one string.
# usage: perl bench/apps/text_index.pl FILE; prints a digest
use strict;
use warnings FATAL => 'all';

if (@ARGV != 1 || !-r $ARGV[0]) {
    print STDERR "text_index.pl: arguments are '@ARGV'; allowed: one file that can be read\n";
    exit 2;
}
my (%places, @lines);
while (<>) {
    chomp;
    push @lines, $_;
    while (/([a-z]+|\d+)/g) {
        push @{ $places{$1} }, [ $., pos ];
    }
}
my $text = '';
for my $word (sort { @{ $places{$b} } <=> @{ $places{$a} } || $a cmp $b } keys %places) {
    $text .= "$word: " . join(', ', map { "$_->[0].$_->[1]" } @{ $places{$word} }) . "\n";
}
my @parts = map { join ' ', reverse split / /, ucfirst } @lines;
printf "%d %d %d\n", scalar keys %places, length $text, unpack '%32C*', join "\n", @parts;
