package consistenthash_test

import (
	"fmt"

	"kring/consistenthash"
)

func Example() {
	ring := consistenthash.New(512, nil)
	ring.Add("kring-1", "kring-2", "kring-3")
	owners := ring.Owners("user:42", 2)
	fmt.Println("owner and next owner:", owners)

	ring.Remove(owners[0])
	fmt.Println("the owner left:", ring.Get("user:42"))

	ring.AddWeighted(owners[0], 1)
	fmt.Println("it is back:", ring.Get("user:42"))
	// Output:
	// owner and next owner: [kring-3 kring-2]
	// the owner left: kring-2
	// it is back: kring-3
}
