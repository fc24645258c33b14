package balance

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
)

// policy is the contract of every way to choose, in this process or shared.
type policy interface {
	// pick chooses from a set that is not empty, without holding the pool's
	// lock, so that it may take a while and fail. It changes the state of
	// members in the set only: a member that is away is found as it was left.
	pick(ctx context.Context, s *set) (choice, error)
	// release ends a choice, once.
	release(c choice)
	// enter is told, under the pool's lock, which members of a new set were not
	// in the one before.
	enter(entering []*member, s *set)
	// reset is told, under the pool's lock, that the list of members or their
	// weights have changed. Sets of an earlier generation are out of date.
	reset(members []*member, generation uint64)
}

// choice is what a policy chose. Token names it where others share the state;
// it is empty in this process.
type choice struct {
	m     *member
	token string
}

// errOutdated says that a set is older than the latest reset: to use it would
// leave traces in state that was made for other members.
var errOutdated = errors.New("the set is out of date")

// turns is the part of the contract that policies do not need which only
// take turns: nothing of a choice is left to be ended or made up for.
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

// shareable policies can keep their state in Redis.
var shareable = []string{"least_assigned", "least_in_flight"}

func policyNames() string {
	return strings.Join(slices.Sorted(maps.Keys(policies)), ", ")
}
