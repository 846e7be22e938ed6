# Six commits of a generated tree, then everything that walks, packs or copies them.
set -euo pipefail
export GIT_AUTHOR_NAME=N GIT_AUTHOR_EMAIL=n@example.org GIT_COMMITTER_NAME=N GIT_COMMITTER_EMAIL=n@example.org
export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_DATE='2001-01-01T00:00:00Z' GIT_COMMITTER_DATE='2001-01-01T00:00:00Z'
git init --quiet --initial-branch=main work
cd work
git config gc.auto 0
cp -r "$DATA/tree" .
for number in {1..6}; do
    for file in $(find tree -type f -name "*$number" | LC_ALL=C sort); do echo "change $number" >>"$file"; done
    [ "$number" -ne 4 ] || git mv tree/d1 tree/moved
    git add --all
    git commit --quiet -m "commit $number"
done
git log --stat -p -M --format=%H | sha256sum
git -c grep.threads=4 grep -c word7 | sha256sum
for file in $(git ls-files | head -n 12); do git blame -s "$file"; done | sha256sum
git checkout --quiet -b side HEAD~2
echo other >other
git add other
git commit --quiet -m side
git merge --quiet -m merge main
git -c pack.threads=2 gc --prune=now --quiet
git fsck --full --strict 2>&1
git bundle create --quiet ../all.bundle --all
git clone --quiet ../all.bundle ../clone
cd ../clone
git rev-parse HEAD "HEAD^{tree}"
git fsck --full 2>&1
git ls-files -s | sha256sum
