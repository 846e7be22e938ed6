# Pictures computed from nothing but arithmetic; identify prints the digest of the pixels.
set -euo pipefail
convert=convert-im6.q16
$convert -size 900x600 gradient:red-blue -swirl 180 -wave 20x90 one.png
$convert one.png -blur 0x4 -resize 140% -rotate 25 -unsharp 0x2 two.miff
$convert two.miff -colors 64 -posterize 8 -resize 700x three.png
$convert three.png -quality 80 -sampling-factor 4:2:0 four.jpg
$convert one.png \( +clone -flip -negate \) -compose screen -composite -distort Barrel '0.1 0 0 0.9' five.tiff
montage-im6.q16 one.png three.png four.jpg -geometry 200x150+4+4 six.png
for picture in one.png two.miff three.png four.jpg five.tiff six.png; do identify-im6.q16 -format '%f %wx%h %#\n' "$picture"; done
