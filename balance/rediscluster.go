package balance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxMoves bounds how often one command follows a slot to another master.
const maxMoves = 3

// redisCluster sends commands to the masters of a Redis Cluster. go-redis has
// a client for that, too, which repeats what may have run, and is a megabyte
// of code for commands that are not used here.
// (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/)
type redisCluster struct {
	connect func(address string) *redis.Client

	// mu guards what follows. It is not held while anybody is asked.
	mu    sync.Mutex
	seeds []string // as configured
	nodes map[string]*redis.Client
	parts []slotRange
	moved map[int]string // newer than parts
	// doubted nodes have failed: who the master is in place of one is looked up
	// before it is asked again, and others are asked first.
	doubted map[string]bool
	ended   bool
}

// slotRange is who has the slots from first to last.
type slotRange struct {
	first, last int
	address     string
}

func newRedisCluster(seeds []string, connect func(address string) *redis.Client) *redisCluster {
	return &redisCluster{connect: connect, seeds: seeds, nodes: map[string]*redis.Client{}, moved: map[int]string{}, doubted: map[string]bool{}}
}

// process runs a command on the key's master. What was refused by one that no
// longer is (nothing ran) goes to the one it names.
func (c *redisCluster) process(ctx context.Context, key string, cmd redis.Cmder) error {
	slot := slotOf(key)
	address, err := c.master(ctx, slot)
	if err != nil {
		cmd.SetErr(err)
		return err
	}
	asking := false
	for move := 0; ; move++ {
		node, err := c.node(address)
		if err != nil {
			cmd.SetErr(err)
			return err
		}
		if asking {
			// For a slot that is on its way, and for this command only.
			p := node.Pipeline()
			p.Do(ctx, "asking")
			_ = p.Process(ctx, cmd) // only queues it
			_, err = p.Exec(ctx)
		} else {
			err = node.Process(ctx, cmd)
		}
		next, ask, ok := redirection(err, address)
		if !ok || move == maxMoves {
			if err != nil && !errors.Is(err, redis.Nil) {
				c.doubt(address, err)
			}
			return err
		}
		address, asking = next, ask
		if !ask {
			c.mu.Lock()
			c.moved[slot] = next
			c.mu.Unlock()
		}
	}
}

// doubt notes that a node failed, unless err is a script's or a command's own.
func (c *redisCluster) doubt(address string, err error) {
	var said redis.Error
	if errors.As(err, &said) && !strings.HasPrefix(said.Error(), "CLUSTERDOWN") && !strings.HasPrefix(said.Error(), "READONLY") {
		return
	}
	c.mu.Lock()
	c.doubted[address] = true
	c.mu.Unlock()
}

// redirection reads MOVED and ASK. An address without a host is on the host
// that was asked.
func redirection(err error, asked string) (address string, ask, ok bool) {
	if err == nil {
		return "", false, false
	}
	words := strings.Fields(err.Error())
	if len(words) != 3 || words[0] != "MOVED" && words[0] != "ASK" {
		return "", false, false
	}
	return withHost(words[2], asked), words[0] == "ASK", true
}

func withHost(address, asked string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host != "" {
		return address
	}
	host, _, err = net.SplitHostPort(asked)
	if err != nil {
		return address
	}
	return net.JoinHostPort(host, port)
}

// master finds who has a slot.
func (c *redisCluster) master(ctx context.Context, slot int) (string, error) {
	c.mu.Lock()
	address := c.lookLocked(slot)
	known := address != "" && !c.doubted[address]
	c.mu.Unlock()
	if known {
		return address, nil
	}
	if err := c.refresh(ctx); err != nil {
		return "", err
	}
	c.mu.Lock()
	address = c.lookLocked(slot)
	c.mu.Unlock()
	if address == "" {
		return "", fmt.Errorf("nobody has slot %d of the Redis Cluster", slot)
	}
	return address, nil
}

func (c *redisCluster) lookLocked(slot int) string {
	if address, ok := c.moved[slot]; ok {
		return address
	}
	for _, p := range c.parts {
		if slot >= p.first && slot <= p.last {
			return p.address
		}
	}
	return ""
}

// refresh asks one node after another who has which slots.
func (c *redisCluster) refresh(ctx context.Context) error {
	c.mu.Lock()
	ask := slices.Clone(c.seeds)
	for address := range c.nodes {
		if !slices.Contains(ask, address) {
			ask = append(ask, address)
		}
	}
	slices.SortStableFunc(ask, func(a, b string) int {
		switch doubted := c.doubted; {
		case doubted[a] == doubted[b]:
			return 0
		case doubted[b]:
			return -1
		}
		return 1
	})
	c.mu.Unlock()
	var failed error
	for _, address := range ask {
		parts, err := c.ask(ctx, address)
		if err == nil {
			c.mu.Lock()
			c.parts, c.moved, c.doubted = parts, map[int]string{}, map[string]bool{}
			c.mu.Unlock()
			return nil
		}
		failed = errors.Join(failed, err)
		c.doubt(address, err)
		// A connection's deadline passes before the context knows of it: those
		// who would be asked in no time at all are not to blame.
		if d, ok := ctx.Deadline(); ctx.Err() != nil || ok && !time.Now().Before(d) {
			break
		}
	}
	return fmt.Errorf("look up the masters: %w", failed)
}

func (c *redisCluster) ask(ctx context.Context, address string) ([]slotRange, error) {
	node, err := c.node(address)
	if err != nil {
		return nil, err
	}
	cmd := redis.NewClusterSlotsCmd(ctx, "cluster", "slots")
	if err := node.Process(ctx, cmd); err != nil {
		return nil, err
	}
	var parts []slotRange
	for _, s := range cmd.Val() {
		if len(s.Nodes) > 0 { // the first is the master
			parts = append(parts, slotRange{s.Start, s.End, withHost(s.Nodes[0].Addr, address)})
		}
	}
	if len(parts) == 0 {
		return nil, errors.New(address + " knows of no slots")
	}
	return parts, nil
}

func (c *redisCluster) node(address string) (*redis.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil, redis.ErrClosed
	}
	node := c.nodes[address]
	if node == nil {
		node = c.connect(address)
		c.nodes[address] = node
	}
	return node, nil
}

func (c *redisCluster) close() error {
	c.mu.Lock()
	c.ended = true
	nodes := c.nodes
	c.nodes = nil
	c.mu.Unlock()
	var errs []error
	for _, node := range nodes {
		errs = append(errs, node.Close())
	}
	return errors.Join(errs...)
}

// slotOf is CRC16 (XMODEM) of what is in the key's first braces, or of all of
// it where there are none, modulo the 16384 slots.
func slotOf(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	crc := uint16(0)
	for _, b := range []byte(key) {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc % 16384)
}
