package keyrange_test

import (
	"fmt"

	"github.com/slicewire/slicewire/balancer/keyrange"
)

// Three slices: from the empty key, from "m", and from "t".
func Example() {
	index, err := keyrange.New([]byte("mt"), []uint32{0, 1, 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, key := range []string{"", "apple", "m", "mango", "zebra"} {
		slice := index.Find(key)
		fmt.Printf("%q is in slice %d, from %q\n", key, slice, index.Start(slice))
	}
	// Output:
	// "" is in slice 0, from ""
	// "apple" is in slice 0, from ""
	// "m" is in slice 1, from "m"
	// "mango" is in slice 1, from "m"
	// "zebra" is in slice 2, from "t"
}

// Start keys out of order are refused, without showing them.
func ExampleNew_unsorted() {
	_, err := keyrange.New([]byte("tm"), []uint32{1, 2})
	fmt.Println(err)
	// Output:
	// keyrange: the start key of slice 1 is below that of slice 0: start keys must be strictly increasing
}
