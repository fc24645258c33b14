package httpapi

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"
)

// Values of headers that all answers share. Nothing may write to them.
var (
	nosniff        = []string{"nosniff"}
	mustRevalidate = []string{"max-age=0, must-revalidate"}
	noStore        = []string{"no-store"}
)

// done answers with a status and no body.
func (a *API) done(c *gin.Context, status int) error {
	h := c.Writer.Header()
	h["Kring-Node"] = a.nodeValue
	c.Writer.WriteHeader(status)
	c.Writer.WriteHeaderNow()
	return nil
}

func (a *API) respondJSON(c *gin.Context, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	if len(body) > uncounted {
		room := a.reports.Answer(c.Request)
		defer room.Release()
		if err := room.Take(c.Request.Context(), int64(len(body))); err != nil {
			return err
		}
	}
	a.respond(c, "application/json", append(body, '\n'))
	return nil
}

func (a *API) respond(c *gin.Context, contentType string, body []byte) {
	h := c.Writer.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h["X-Content-Type-Options"] = nosniff
	a.write(c, body)
}

// write sends a body in one piece. An error means only that the client has gone.
func (a *API) write(c *gin.Context, body []byte) {
	if _, err := c.Writer.Write(body); err != nil {
		a.log.LogAttrs(c.Request.Context(), slog.LevelDebug, "answer not written",
			slog.String("route", c.FullPath()), slog.String("request_id", a.requestID(c)), slog.Any("error", err))
	}
}

// nameOwner names the node that has acted for the key, if one has.
func (a *API) nameOwner(h http.Header, node string) {
	switch node {
	case "":
	case a.node:
		h["Kring-Owner"] = a.nodeValue
	default:
		h["Kring-Owner"] = []string{node}
	}
}
