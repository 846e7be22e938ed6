# Groups, sorts and flattens an array of records. usage: jq -c -f bench/apps/groups.jq FILE
group_by(.group)
| map({group: .[0].group, count: length, price: (map(.price) | add), tags: ([.[].tags[]] | unique | length),
       words: ([.[].places[].note | split(" ") | length] | add)})
| sort_by(.price, .group) | .[]
