// Waits of 200 ms, as Go's programs make them. Prints "NOMINAL TOOK NAME", in ms.
package main

import (
	"context"
	"fmt"
	"time"
)

func wait(name string, f func()) {
	s := time.Now()
	f()
	fmt.Println(200, time.Since(s).Milliseconds(), name)
}

func main() {
	wait("time.Sleep", func() { time.Sleep(200 * time.Millisecond) })
	wait("time.After", func() { <-time.After(200 * time.Millisecond) })
	wait("context", func() {
		c, f := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer f()
		<-c.Done()
	})
	wait("Ticker", func() {
		t := time.NewTicker(20 * time.Millisecond)
		for i := 0; i < 10; i++ {
			<-t.C
		}
	})
}
