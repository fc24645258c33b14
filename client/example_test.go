package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"kring/client"
)

func Example() {
	ctx := context.Background()
	c, err := client.New(client.Config{Nodes: []string{"http://127.0.0.1:8001", "http://127.0.0.1:8002"}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Put(ctx, "kv", "greeting", []byte("hello, ring"), client.PutOptions{TTL: time.Minute}); err != nil {
		log.Print(err)
		return
	}
	value, err := c.Get(ctx, "kv", "greeting")
	switch {
	case errors.Is(err, client.ErrNotFound): // the origin, or a group without one, does not have the key
	case err != nil:
		log.Print(err)
	default:
		fmt.Printf("%s\n", value.Body)
	}
}
