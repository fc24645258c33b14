package peers

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"kring/consistenthash"
)

// Member is one node as the configuration names it.
type Member struct {
	// ID is the stable name on the ring.
	ID string
	// URL is where other nodes reach it: http://host:port.
	URL string
	// Weight is its share of the ring relative to the others'; 0 means 1.
	Weight int
	// Incarnation tells one process of a node from the next; 0: drawn at random.
	Incarnation uint64
}

// ids are names that are safe in headers, logs and labels.
var ids = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`)

// maxWeight keeps a slip of the finger from filling memory with ring points.
const maxWeight = 1000

// hashes are the ring's hash functions by their names in the configuration.
var hashes = map[string]consistenthash.Hash{
	"crc32":       nil, // consistenthash's default: CRC32 with a finaliser
	"crc32-plain": consistenthash.PlainCRC32,
}

// Look is the view of a list that several nodes share, seen by none of them:
// whose key is whose, without any connection.
func Look(cfg Config) (*View, error) {
	if err := checkRing(cfg); err != nil {
		return nil, err
	}
	members, err := discoverStatic(Member{}, cfg.Peers)
	if err != nil {
		return nil, err
	}
	return newView("", members, cfg, time.Now()), nil
}

// discover reads the list of the configuration and returns all members, self
// included, by id. Its errors name the field and the value.
func discover(self Member, cfg Config) ([]Member, error) {
	if err := checkRing(cfg); err != nil {
		return nil, err
	}
	if self.Weight == 0 {
		self.Weight = cfg.Weight
	}
	if self.Weight < 1 || self.Weight > maxWeight {
		return nil, fmt.Errorf("cluster.weight: %d: must be 1 to %d", self.Weight, maxWeight)
	}
	if !ids.MatchString(self.ID) {
		return nil, fmt.Errorf("node.id: %q: must be letters, digits and ._:- only, 1 to 128 of them", self.ID)
	}
	if len(cfg.Peers) == 0 {
		return []Member{self}, nil
	}
	return discoverStatic(self, cfg.Peers)
}

// checkRing checks what all nodes have alike, besides the list.
func checkRing(cfg Config) error {
	if cfg.Discovery != "static" {
		return fmt.Errorf("cluster.discovery: %q: only static is known", cfg.Discovery)
	}
	if cfg.Name == "" {
		return fmt.Errorf("cluster.name: %q: must not be empty", cfg.Name)
	}
	if len(cfg.Name) > maxName {
		return fmt.Errorf("cluster.name: %.20q…: longer than %d bytes", cfg.Name, maxName)
	}
	if cfg.VirtualNodes < 1 || cfg.VirtualNodes > 1<<16 {
		return fmt.Errorf("cluster.virtual_nodes: %d: must be 1 to %d", cfg.VirtualNodes, 1<<16)
	}
	if _, ok := hashes[cfg.Hash]; !ok {
		return fmt.Errorf("cluster.hash: %q: must be crc32 or crc32-plain", cfg.Hash)
	}
	return nil
}

// discoverStatic reads the list; a self without an id need not be in it.
func discoverStatic(self Member, list []string) ([]Member, error) {
	members := make([]Member, 0, len(list))
	byURL := make(map[string]string, len(list))
	found := false
	for _, item := range list {
		m, err := parseMember(item)
		if err != nil {
			return nil, fmt.Errorf("cluster.peers: %q: %w", item, err)
		}
		if slices.ContainsFunc(members, func(o Member) bool { return o.ID == m.ID }) {
			return nil, fmt.Errorf("cluster.peers: %q: the id %s is there twice", item, m.ID)
		}
		if other, ok := byURL[m.URL]; ok {
			return nil, fmt.Errorf("cluster.peers: %q: %s has this address already", item, other)
		}
		byURL[m.URL] = m.ID
		if m.ID == self.ID {
			found = true
			if m.Weight != self.Weight {
				return nil, fmt.Errorf("cluster.weight: %d: cluster.peers has %q, weight %d, and all nodes must see one ring: add ;weight=%d there",
					self.Weight, item, m.Weight, self.Weight)
			}
			m.Incarnation = self.Incarnation
		}
		members = append(members, m)
	}
	if !found && self.ID != "" {
		return nil, fmt.Errorf("cluster.peers: %q: this node's id %s is missing; set node.id (--node-id) to the one that this node is", strings.Join(list, ", "), self.ID)
	}
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	return members, nil
}

// parseMember reads "id=http://host:port", optionally with ";weight=2".
func parseMember(item string) (Member, error) {
	id, rest, ok := strings.Cut(item, "=")
	if !ok {
		return Member{}, fmt.Errorf("must be id=http://host:port")
	}
	if !ids.MatchString(id) {
		return Member{}, fmt.Errorf("the id %q must be letters, digits and ._:- only, 1 to 128 of them", id)
	}
	address, options, has := strings.Cut(rest, ";")
	m := Member{ID: id, Weight: 1}
	if has {
		value, ok := strings.CutPrefix(options, "weight=")
		weight, err := strconv.Atoi(value)
		if !ok || err != nil || weight < 1 || weight > maxWeight {
			return Member{}, fmt.Errorf("%q must be weight=N, N from 1 to %d", options, maxWeight)
		}
		m.Weight = weight
	}
	u, err := url.Parse(address)
	if err != nil {
		return Member{}, fmt.Errorf("bad URL: must be http://host:port")
	}
	port, err := strconv.Atoi(u.Port())
	if u.Scheme != "http" || u.Hostname() == "" || err != nil || port < 1 || port > 65535 ||
		u.User != nil || (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.Fragment != "" {
		return Member{}, fmt.Errorf("bad URL %q: must be http://host:port", address)
	}
	m.URL = "http://" + strings.ToLower(u.Host)
	return m, nil
}
