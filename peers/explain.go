package peers

import "kring/cache"

// Explanation says why a key is where it is.
type Explanation struct {
	Group string `json:"group"`
	Key   string `json:"key"`
	// Hash is the key's place on the ring.
	Hash  uint32 `json:"hash"`
	Owner string `json:"owner"`
	// Owners are all members in the order in which they would act for the key.
	Owners []string `json:"owners"`
	// Acting is who acts for it now, as this node sees it.
	Acting string `json:"acting"`
	// Copies are those that the members have, this node's included.
	Copies []cache.Copy `json:"copies"`
	// Unreachable are the members that could not be asked.
	Unreachable []string `json:"unreachable,omitempty"`
	// LastLoad is the newest load of the key that a member remembers, or null.
	LastLoad *cache.LastLoad `json:"last_load"`
}
