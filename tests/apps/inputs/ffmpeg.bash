# Encodes a generated film with threads, scales, mixes and decodes it. The files must be the same, so quality is fixed: with a
# bit rate, what x264 writes depends on the timing of its threads.
set -euo pipefail
run() { ffmpeg -nostdin -hide_banner -loglevel error -y "$@"; }
sources=(-f lavfi -i testsrc2=size=480x272:rate=25:duration=4 -f lavfi -i sine=frequency=440:duration=4)
exact=(-fflags +bitexact -flags:v +bitexact -flags:a +bitexact)
run "${sources[@]}" -c:v libx264 -qp 25 -preset veryfast -threads 2 -c:a aac "${exact[@]}" one.mkv
run "${sources[@]}" -c:v libvpx-vp9 -b:v 400k -deadline good -cpu-used 5 -threads 2 -row-mt 1 -c:a flac "${exact[@]}" two.mkv
run -threads 2 -i one.mkv -filter_complex "[0:v]scale=320:180,hue=h=60,split[a][b];[a][b]hstack" -c:v mpeg4 -q:v 4 -threads 2 "${exact[@]}" three.avi
sha256sum one.mkv three.avi
for film in one.mkv two.mkv three.avi; do run -threads 2 -i "$film" -f framemd5 - | sha256sum; done
