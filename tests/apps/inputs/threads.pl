# Threads that pass strings through a queue: perl copies its whole interpreter for each.
use strict; use warnings; use threads; use Thread::Queue;
my ($in, $out) = (Thread::Queue->new, Thread::Queue->new);
my @workers = map {
    threads->create(sub {
        while (defined(my $word = $in->dequeue)) {
            my %count; $count{$_}++ for split //, $word x 50;
            $out->enqueue(join ",", map { "$_$count{$_}" } sort keys %count);
        }
    })
} 1 .. 4;
$in->enqueue("word" . $_ * 7919 % 10007) for 1 .. 4000;
$in->end; $_->join for @workers; $out->end;
my @all; while (defined(my $line = $out->dequeue_nb)) { push @all, $line }
print scalar(@all), " ", unpack("%32C*", join "\n", sort @all), "\n";
for my $round (1 .. 20) { my $pid = fork // die; if (!$pid) { my @a = map { "x" x $_ } 1 .. 2000; exit(@a == 2000 ? 0 : 1) } waitpid $pid, 0; die if $? }
