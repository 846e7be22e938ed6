# Lists, dictionaries and strings in Tcl: words of a text by their line, sorted, joined and split again.
# usage: tclsh bench/apps/word_lists.tcl FILE; prints a digest

if {[llength $argv] != 1 || ![file readable [lindex $argv 0]]} {
    puts stderr "word_lists.tcl: arguments are '$argv'; allowed: one file that can be read"
    exit 2
}
set in [open [lindex $argv 0]]
set number 0
while {[gets $in line] >= 0} {
    incr number
    foreach word [split $line] {
        dict lappend places [string trimright $word .] $number
    }
}
close $in
set sum 0
foreach word [lsort [dict keys $places]] {
    set found [dict get $places $word]
    set text [join [lreverse $found] ", "]
    set sum [expr {($sum * 31 + [llength [split $text ,]] + [string length $text]) % 1000000007}]
    append all [string repeat "$word " [expr {min(9, [llength $found])}]]
}
puts "[dict size $places] [string length $all] $sum"
