# Strings, hashes, threads, forks, and the compacting collector.
require "digest"
require "json"
words = Array.new(60_000) { |i| "word#{i * 7919 % 65_537}" * (1 + i % 9) }
table = words.group_by(&:size).transform_values { |list| list.map(&:upcase).sort.uniq }
puts Digest::SHA256.hexdigest(JSON.generate(table.sort.to_h))
sums = Array.new(4) { |t| Thread.new { (1..20_000).reduce(t) { |sum, i| (sum + (i.to_s * (i % 30)).hash.class.to_s.size) % 1009 } } }
puts sums.map(&:value).inspect
GC.start
GC.compact if GC.respond_to?(:compact)
10.times do |i|
  pid = fork { exit!(Array.new(5000) { |k| "a" * (k % 700) }.map(&:size).sum == 1_722_000 - 0 ? 0 : 1) }
  Process.wait(pid)
  puts "child #{i}: #{$?.exitstatus}"
end
puts words.map { |w| w.sub(/d(\d+)/) { "D#{$1.to_i + 1}" } }.sort.last(3).join(" ")
