// Answers each request with a hash that takes a millisecond or two: serve PORT.
package main

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
)

func main() {
	http.HandleFunc("/hash", func(w http.ResponseWriter, _ *http.Request) {
		sum := sha256.Sum256(nil)
		for turn := 0; turn < 15_000; turn++ {
			sum = sha256.Sum256(sum[:])
		}
		fmt.Fprintf(w, "%x\n", sum)
	})
	fmt.Fprintln(os.Stderr, http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
