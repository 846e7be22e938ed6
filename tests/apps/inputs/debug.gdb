set pagination off
set width 0
break list_sum if node == 0
run
python
frame, depth = gdb.newest_frame(), 0
while frame is not None and frame.name() == "list_sum":
    frame, depth = frame.older(), depth + 1
print("depth", depth)
table = {i: str(i) * (i % 50) for i in range(50000)}
print(sum(map(len, table.values())))
end
bt 5
up 3
print *node
delete
info line list_make
disassemble list_sum
ptype struct debugged_node
info types debugged_node
finish
continue
