// Package origin loads keys over HTTP through a pool of endpoints. It makes a
// URL of a key, asks one endpoint (a second one if that fails and the retry
// budget allows it), and accepts only a whole answer.
//
// An answer is 200 (a value), 404 or 410 (no such key), or 304 to a conditional
// request. Everything else is an error of package cache whose detail is safe to
// show to clients.
package origin
