// Makes a program of waits.go that is linked dynamically, with the C library.
package main

import "C"
