// Copies one file to another. copy FROM TO
package main

import (
	"io"
	"os"
)

func main() {
	from, err := os.Open(os.Args[1])
	if err == nil {
		var to *os.File
		to, err = os.Create(os.Args[2])
		if err == nil {
			_, err = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, 7000))
		}
	}
	if err != nil {
		panic(err)
	}
}
