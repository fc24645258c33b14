package httpserver

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func lazy(parent context.Context, at time.Time) *LazyDeadline {
	return &LazyDeadline{Context: parent, At: at}
}

func TestDeadlinePasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		d := lazy(t.Context(), began.Add(time.Second))
		defer d.Stop()
		if err := d.Err(); err != nil {
			t.Fatalf("ended at once: %v", err)
		}
		if at, ok := d.Deadline(); !ok || !at.Equal(began.Add(time.Second)) {
			t.Errorf("deadline %v %v", at, ok)
		}
		<-d.Done()
		if took := time.Since(began); took != time.Second {
			t.Errorf("ended after %v", took)
		}
		if err := d.Err(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestDeadlineWithoutATimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := lazy(t.Context(), time.Now().Add(time.Second))
		other, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		<-other.Done()
		if err := d.Err(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("late, and never waited for: %v", err)
		}
		d.Stop()
		if d.inner != nil {
			t.Error("a timer was set though nobody waited")
		}
	})
}

func TestDeadlineOfTheParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		parent, cancel := context.WithDeadline(t.Context(), began.Add(time.Second))
		defer cancel()
		d := lazy(parent, began.Add(time.Hour))
		defer d.Stop()
		if at, ok := d.Deadline(); !ok || !at.Equal(began.Add(time.Second)) {
			t.Errorf("deadline %v %v", at, ok)
		}
		<-d.Done()
		if took := time.Since(began); took != time.Second {
			t.Errorf("ended after %v", took)
		}
	})
}

// TestDeadlineChildren: contexts made of it end with it, whichever way it
// ends, and nothing is left behind.
func TestDeadlineChildren(t *testing.T) {
	for name, end := range map[string]func(d *LazyDeadline, cancelParent func()){
		"stopped":       func(d *LazyDeadline, _ func()) { d.Stop() },
		"parent's end":  func(_ *LazyDeadline, cancelParent func()) { cancelParent() },
		"stopped twice": func(d *LazyDeadline, _ func()) { d.Stop(); d.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent, cancelParent := context.WithCancel(t.Context())
				defer cancelParent()
				d := lazy(parent, time.Now().Add(time.Hour))
				child, cancel := context.WithCancel(d)
				defer cancel()
				end(d, cancelParent)
				<-child.Done()
				if !errors.Is(child.Err(), context.Canceled) || !errors.Is(d.Err(), context.Canceled) {
					t.Errorf("ended with %v and %v", child.Err(), d.Err())
				}
				d.Stop()
			})
		})
	}
}

func TestDeadlineStoppedFirst(t *testing.T) {
	d := lazy(t.Context(), time.Now().Add(time.Hour))
	d.Stop()
	if err := d.Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped, but %v", err)
	}
	<-d.Done()
}

func TestDeadlineKeepsValues(t *testing.T) {
	type name struct{}
	d := lazy(context.WithValue(t.Context(), name{}, "x"), time.Now().Add(time.Hour))
	defer d.Stop()
	for range 2 {
		if d.Value(name{}) != "x" {
			t.Error("the value is lost")
		}
		d.Done()
	}
}
