// Package talk is what the client programs beside it share: checks, and the talk with the test that runs them
// (../../restartable.py).
package talk

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
)

var input = bufio.NewReader(os.Stdin)

// Must gives the value of a call that has to succeed.
func Must[T any](value T, err error) T {
	if err != nil {
		fail("%v", err)
	}
	return value
}

// Same checks that two values are equal.
func Same[T comparable](got, want T) {
	if got != want {
		fail("got %v, want %v", got, want)
	}
}

// Fails checks that a call has failed with this error.
func Fails(err, want error) {
	if !errors.Is(err, want) {
		fail("got %v, want the error %v", err, want)
	}
}

// Ask asks the test for something, waits until it is done, and gives what the test says.
func Ask(what string) string {
	fmt.Println(what)
	return strings.TrimSpace(Must(input.ReadString('\n')))
}

// Ends the program with the line of its caller that was not satisfied.
func fail(format string, arguments ...any) {
	_, file, line, _ := runtime.Caller(2)
	panic(fmt.Sprintf("%s:%d: ", file, line) + fmt.Sprintf(format, arguments...))
}
