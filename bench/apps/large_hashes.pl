#!/usr/bin/perl
# Perl hashes of strings and lists, some hundred MiB: all are built, read in random order, and half of them replaced.
# usage: perl bench/apps/large_hashes.pl COUNT; prints a digest
use strict;
use warnings FATAL => 'all';

if (@ARGV != 1 || $ARGV[0] !~ /^[1-9]\d*$/) {
    print STDERR "large_hashes.pl: arguments are '@ARGV'; allowed: one number, 1 or more\n";
    exit 2;
}
my $count = shift;
my $state = 1;

sub random {
    $state = ($state * 1103515245 + 12345) % 2147483648;
    return int($state / 65536) % $_[0];
}

sub record {
    my $id = shift;
    my $word = "word " . $id % 97 . " ";
    my @list = map { $id * $_ } 0 .. random(12);
    return { id => $id, name => "name $id", text => $word x (1 + random(20)), list => \@list };
}

my %records;
$records{"name $_"} = record($_) for 0 .. $count - 1;

my $sum = 0;
for (1 .. $count) {
    my $found = $records{"name " . random($count)};
    $sum = ($sum + length($found->{text}) + $found->{list}[-1]) % 1000000007;
}
for (1 .. int($count / 2)) {
    my $id = random($count);
    $records{"name $id"} = record($id);
    $sum = ($sum + length($records{"name " . random($count)}{text})) % 1000000007;
}
print "$sum\n";
