// Goroutines that allocate in C, pass the blocks through a channel, and free them on another thread.
package main

/*
#include <stdlib.h>
#include <string.h>
static unsigned sum(const unsigned char *bytes, size_t count) {
	unsigned total = 0;
	for (size_t i = 0; i < count; i++)
		total = total * 31 + bytes[i];
	return total;
}
*/
import "C"

import (
	"os"
	"strconv"
	"sync"
	"unsafe"
)

type block struct {
	address unsafe.Pointer
	size    C.size_t
}

func main() {
	blocks := make(chan block, 256)
	totals := make(chan uint32)
	var makers sync.WaitGroup
	for maker := 0; maker < 8; maker++ {
		makers.Add(1)
		go func(maker int) {
			defer makers.Done()
			for i := 0; i < 30000; i++ {
				size := C.size_t(1 + (i*7919+maker)%3000)
				address := C.malloc(size)
				C.memset(address, C.int(i%251), size)
				blocks <- block{address, size}
			}
		}(maker)
	}
	for taker := 0; taker < 4; taker++ {
		go func() {
			total := uint32(0)
			for b := range blocks {
				total += uint32(C.sum((*C.uchar)(b.address), b.size))
				C.free(b.address)
			}
			totals <- total
		}()
	}
	makers.Wait()
	close(blocks)
	os.Stdout.WriteString(strconv.Itoa(int(<-totals+<-totals+<-totals+<-totals)) + "\n")
}
