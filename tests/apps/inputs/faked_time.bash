# libfaketime, before and behind the library in LD_PRELOAD; its functions replace those of the clock.
set -euo pipefail
fake=$(dpkg -L libfaketime | grep '/libfaketimeMT.so.1$')
own=$LD_PRELOAD # empty in the run under glibc
for preload in "$fake${own:+:$own}" "${own:+$own:}$fake"; do
    LD_PRELOAD=$preload FAKETIME='@2020-02-29 12:00:00' FAKETIME_DONT_FAKE_MONOTONIC=1 \
        perl -e 'use threads; print join(" ", map { $_->join } map { my $n = $_; threads->create(sub {
            my %h; $h{$_ % 997} .= time() . "x" x ($_ % 50) for 1 .. 40000; join ":", $n, scalar(keys %h), (localtime)[5] + 1900 }) } 1 .. 4), "\n"'
    LD_PRELOAD=$preload FAKETIME='@2020-02-29 12:00:00' date +%F
done
faketime -f '@2001-02-03 04:05:06' date +%F
