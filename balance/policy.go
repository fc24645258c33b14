package balance

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
)

// policy is one way to choose, in this process or shared.
type policy interface {
	// pick chooses from a set that is not empty. It does not hold the pool's
	// lock, so it may block, and it may fail. It changes only the state of
	// members in the set; the state of the others stays as it was.
	pick(ctx context.Context, s *set) (choice, error)
	// release ends a choice. The pool calls it once for each choice.
	release(c choice)
	// enter gets the members of a new set that were not in the one before. The
	// pool's lock is held.
	enter(entering []*member, s *set)
	// reset is called after a change of the members or their weights. The
	// pool's lock is held. Sets of an earlier generation are out of date.
	reset(members []*member, generation uint64)
}

// choice is what a policy chose. token names it in shared state; it is empty in
// local state.
type choice struct {
	m     *member
	token string
}

// errOutdated says that a set is older than the latest reset. A pick from it
// would leave traces in state that was made for other members.
var errOutdated = errors.New("the set is out of date")

// turns holds the two methods that do nothing in a policy that only takes
// turns.
type turns struct{}

func (turns) release(choice)        {}
func (turns) enter([]*member, *set) {}

// policies by their names in the configuration.
var policies = map[string]func() policy{
	"round_robin":     func() policy { return new(roundRobin) },
	"weighted":        func() policy { return new(weighted) },
	"smooth_weighted": func() policy { return new(smooth) },
	"least_assigned":  func() policy { return new(leastAssigned) },
	"least_in_flight": func() policy { return new(leastInFlight) },
}

// shareable are the policies that can keep their state in Redis.
var shareable = []string{"least_assigned", "least_in_flight"}

func policyNames() string {
	return strings.Join(slices.Sorted(maps.Keys(policies)), ", ")
}
