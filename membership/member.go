package membership

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Member is one node as the configuration names it.
type Member struct {
	// ID is the stable name on the ring.
	ID string
	// URL is the node's address for other nodes: http://host:port.
	URL string
	// Weight is its share of the ring relative to the others', 1 to 1000.
	Weight int
}

// ids matches names that are safe in headers, logs and labels.
var ids = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`)

// maxWeight keeps a mistyped weight from filling the memory with ring points.
const maxWeight = 1000

// check checks a node's own settings.
func (m Member) check() error {
	if m.Weight < 1 || m.Weight > maxWeight {
		return fmt.Errorf("cluster.weight: %d: must be 1 to %d", m.Weight, maxWeight)
	}
	if !ids.MatchString(m.ID) {
		return fmt.Errorf("node.id: %q: must be letters, digits and ._:- only, 1 to 128 of them", m.ID)
	}
	return nil
}

// parseList reads the list cluster.peers. The members are sorted by id.
func parseList(list []string) ([]Member, error) {
	members := make([]Member, 0, len(list))
	byURL := make(map[string]string, len(list))
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
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	return members, nil
}

// agree checks that the list's entry of self agrees with self's own settings.
func agree(members []Member, self Member, list []string) error {
	for _, m := range members {
		if m.ID != self.ID {
			continue
		}
		if m.Weight != self.Weight {
			return fmt.Errorf("cluster.weight: %d: cluster.peers has %s with weight %d, and all nodes must see one ring: add ;weight=%d there",
				self.Weight, m.ID, m.Weight, self.Weight)
		}
		return nil
	}
	return fmt.Errorf("cluster.peers: %q: this node's id %s is missing; set node.id (--node-id) to the one that this node is", strings.Join(list, ", "), self.ID)
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
