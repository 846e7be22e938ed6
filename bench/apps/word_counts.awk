# Counts words, pairs of neighbours and lengths of a text, and prints the most frequent ones.
# usage: mawk -f bench/apps/word_counts.awk FILE
{
    for (i = 1; i <= NF; i++) {
        word = tolower($i)
        sub(/[^a-z0-9]+$/, "", word)
        count[word]++
        lines[word] = length(lines[word]) < 400 ? lines[word] " " NR : " " NR
        if (i > 1)
            pairs[before " " word]++
        before = word
    }
}
END {
    for (pair in pairs)
        if (pairs[pair] > best) {
            best = pairs[pair]
            kept = pair
        } else if (pairs[pair] == best && pair < kept)
            kept = pair
    for (word in count) {
        words++
        sum = (sum + count[word] * length(lines[word])) % 1000000007
    }
    print words, sum, best, kept
}
