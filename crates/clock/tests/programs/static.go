// Go's run-time without libc: goroutines, timers, deadlines, preemption, many threads, children.
package main

import (
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

func timed(nominal time.Duration, f func()) {
	start := time.Now()
	f()
	fmt.Println(time.Since(start).Seconds(), nominal.Seconds())
}

func main() {
	const brief = 20 * time.Millisecond
	timed(brief, func() { time.Sleep(brief) })
	timed(brief, func() { <-time.After(brief) })
	timed(brief, func() {
		ticker := time.NewTicker(brief / 10)
		for i := 0; i < 10; i++ {
			<-ticker.C
		}
	})
	timed(brief, func() {
		var all sync.WaitGroup
		for i := 0; i < 50; i++ {
			all.Add(1)
			go func() {
				defer all.Done()
				runtime.LockOSThread()
				time.Sleep(brief)
			}()
		}
		all.Wait()
	})
	timed(brief, func() {
		a, b := net.Pipe()
		defer b.Close()
		a.SetReadDeadline(time.Now().Add(brief))
		if _, err := a.Read(make([]byte, 1)); err == nil {
			panic("read from an empty pipe")
		}
	})
	timed(brief, func() {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		l.(*net.TCPListener).SetDeadline(time.Now().Add(brief))
		if _, err := l.Accept(); err == nil {
			panic("a connection from nobody")
		}
	})
	timed(brief, func() {
		// A busy goroutine must be preempted for the timer, by a signal.
		runtime.GOMAXPROCS(1)
		done := false
		go func() { time.Sleep(brief); done = true }()
		for start := time.Now(); time.Since(start) < brief; {
			runtime.GC()
		}
		_ = done
	})
	timed(brief, func() {
		if err := exec.Command("sleep", "0.02").Run(); err != nil {
			panic(err)
		}
	})
}
