// Package parhelion calls a parhelion daemon: its routes, and its methods of JSON-RPC.
package parhelion

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Client calls one daemon. Its fields may be changed before the first call.
type Client struct {
	// BaseURL is the address of the daemon, such as http://127.0.0.1:8787.
	BaseURL string
	// APIKey may be empty.
	APIKey string
	// HTTP has the time limit of one attempt.
	HTTP *http.Client
	// Retries is how often a read or a call is sent again when the daemon says when (Retry-After of 429 and 503).
	Retries int
	// RPC has the methods of JSON-RPC.
	RPC *RPC
}

// RPC has the methods of JSON-RPC. Others are called with Call.
type RPC struct{ client *Client }

// New makes a client with a time limit of 30 seconds and two retries. It follows no redirects: another host must not get the key.
func New(baseURL, apiKey string) *Client {
	client := &Client{
		BaseURL: strings.TrimRight(baseURL, "/"),
		APIKey:  apiKey,
		HTTP: &http.Client{
			Timeout:       30 * time.Second,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		Retries: 2,
	}
	client.RPC = &RPC{client}
	return client
}

// Ptr returns a pointer to a value, for members that may be absent.
func Ptr[T any](value T) *T { return &value }

// Kind says where a call failed.
type Kind string

const (
	// KindRPC is an error of a JSON-RPC call.
	KindRPC Kind = "rpc"
	// KindHTTP is a refusal of a route.
	KindHTTP Kind = "http"
	// KindTimeout means that the daemon did not answer in time.
	KindTimeout Kind = "timeout"
	// KindConnection means that no answer came.
	KindConnection Kind = "connection"
	// KindAnswer means that what came is no answer of the daemon.
	KindAnswer Kind = "answer"
)

// Error is a call that failed.
type Error struct {
	Kind Kind
	// Status is that of HTTP; 0 where no answer came.
	Status int
	// Code is that of a JSON-RPC error.
	Code    int64
	Message string
	// Details is the reason, as one sentence.
	Details string
	// Data is that of a JSON-RPC error.
	Data json.RawMessage
	// RetryAfter is the time after which a retry may help.
	RetryAfter time.Duration
	// RequestID is the request in the log of the daemon.
	RequestID string
	Cause     error
}

func (e *Error) Error() string {
	if e.Details == "" {
		return e.Message
	}
	return e.Message + ": " + e.Details
}

// Unwrap returns what is below the error.
func (e *Error) Unwrap() error { return e.Cause }

type request struct {
	method, path string
	query        any
	body         any
	needsKey     bool
	isText       bool
}

// Call calls any method of JSON-RPC, also one that this package does not know.
func Call[T any](ctx context.Context, c *Client, method string, params any) (T, error) {
	var answer struct {
		Result T `json:"result"`
	}
	body := map[string]any{"jsonrpc": "2.0", "id": 1, "method": method}
	if params != nil {
		body["params"] = params
	}
	err := c.send(ctx, request{method: "POST", path: "/", body: body, needsKey: true}, c.Retries, &answer)
	return answer.Result, err
}

// fetch calls a route.
func fetch[T any](ctx context.Context, c *Client, r request) (T, error) {
	var answer T
	retries := 0
	if r.method == http.MethodGet {
		retries = c.Retries
	}
	err := c.send(ctx, r, retries, &answer)
	return answer, err
}

func (c *Client) send(ctx context.Context, r request, retries int, answer any) error {
	for attempt := 0; ; attempt++ {
		err := c.attempt(ctx, r, answer)
		var failure *Error
		if err == nil || !errors.As(err, &failure) || failure.RetryAfter == 0 || attempt >= retries {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(failure.RetryAfter):
		}
	}
}

func (c *Client) attempt(ctx context.Context, r request, answer any) error {
	query, err := queryText(r.query)
	if err != nil {
		return err
	}
	content, err := json.Marshal(r.body)
	if err != nil {
		return err
	}
	var body io.Reader
	if string(content) != "null" {
		body = bytes.NewReader(content)
	}
	call, err := http.NewRequestWithContext(ctx, r.method, c.BaseURL+r.path+query, body)
	if err != nil {
		return err
	}
	call.Header.Set("Accept", "application/json")
	if body != nil {
		call.Header.Set("Content-Type", "application/json")
	}
	if r.needsKey && c.APIKey != "" {
		call.Header.Set(keyHeader, c.APIKey)
	}
	response, err := c.HTTP.Do(call)
	if err != nil {
		return connectionError(err)
	}
	defer response.Body.Close()
	received, err := io.ReadAll(response.Body)
	if err != nil {
		return connectionError(err)
	}
	return readAnswer(response, received, r.isText, answer)
}

func connectionError(err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return &Error{Kind: KindTimeout, Message: "the daemon did not answer in time", Cause: err}
	}
	return &Error{Kind: KindConnection, Message: "the daemon cannot be reached", Cause: err}
}

func readAnswer(response *http.Response, content []byte, isText bool, answer any) error {
	isFailure := response.StatusCode < 200 || response.StatusCode > 299
	if isFailure || isRPCError(content) {
		return failureOf(response, content)
	}
	if text, ok := answer.(*string); ok && isText {
		*text = string(content)
		return nil
	}
	if len(content) == 0 {
		return nil
	}
	if err := decode(content, answer); err != nil {
		return &Error{Kind: KindAnswer, Message: "the answer is not of the expected form", Status: response.StatusCode, Cause: err}
	}
	return nil
}

// decode keeps all digits of numbers whose type is not known.
func decode(content []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	return decoder.Decode(into)
}

// isRPCError finds an error of JSON-RPC, which may have the HTTP status 200.
func isRPCError(content []byte) bool {
	var envelope struct {
		Version string          `json:"jsonrpc"`
		Error   json.RawMessage `json:"error"`
	}
	return json.Unmarshal(content, &envelope) == nil && envelope.Version == "2.0" && len(envelope.Error) > 0
}

// failureOf reads the shapes of errors: {jsonrpc, error: {code, message, data}}, {error, details}, {message, error}, or a text.
func failureOf(response *http.Response, content []byte) error {
	failure := &Error{Kind: KindHTTP, Status: response.StatusCode, RequestID: response.Header.Get("X-Request-Id")}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
		failure.RetryAfter = time.Duration(seconds) * time.Second
	}
	var members struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Details string          `json:"details"`
	}
	_ = json.Unmarshal(content, &members)
	var call struct {
		Code    int64           `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	if len(members.Error) > 0 && members.Error[0] == '{' && json.Unmarshal(members.Error, &call) == nil {
		failure.Kind, failure.Code, failure.Message, failure.Data = KindRPC, call.Code, call.Message, call.Data
		var data struct {
			Details string `json:"details"`
		}
		if json.Unmarshal(call.Data, &data) == nil {
			failure.Details = data.Details
		}
		return failure
	}
	failure.Message, failure.Details = members.Message, members.Details
	if failure.Message == "" {
		_ = json.Unmarshal(members.Error, &failure.Message)
	}
	if failure.Message == "" {
		failure.Message = strings.TrimSpace(string(content[:min(len(content), 200)]))
	}
	if failure.Message == "" {
		failure.Message = fmt.Sprintf("HTTP %d", response.StatusCode)
	}
	return failure
}

// queryText writes the members of a struct as parameters of a query.
func queryText(query any) (string, error) {
	if query == nil {
		return "", nil
	}
	content, err := json.Marshal(query)
	if err != nil {
		return "", err
	}
	var members map[string]any
	if err := decode(content, &members); err != nil || len(members) == 0 {
		return "", err
	}
	values := url.Values{}
	for name, value := range members {
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		for _, one := range list {
			values.Add(name, fmt.Sprint(one))
		}
	}
	return "?" + values.Encode(), nil
}

// given returns params by position: what is absent at the end is left out, what is absent before it is null.
func given(values ...any) any {
	for len(values) > 0 && isAbsent(values[len(values)-1]) {
		values = values[:len(values)-1]
	}
	if len(values) == 0 {
		return nil
	}
	return values
}

func isAbsent(value any) bool {
	content, err := json.Marshal(value)
	return err == nil && string(content) == "null"
}
