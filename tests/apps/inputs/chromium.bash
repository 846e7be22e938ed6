# The table of a page that its own scripts made.
set -euo pipefail
chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-background-networking --disable-component-update \
    --disable-quic --disable-sync --no-first-run \
    --user-data-dir="$TMPDIR/profile" --virtual-time-budget=20000 --dump-dom "file://$INPUTS/page.html"
