// Command standin is what the example talks to: an MCP server with the tickets of a help desk at /mcp, and
// a service with an OpenAPI document that has the desk's stock at /stock. With the argument stdio it is the
// MCP server alone, for a bot that starts it. It forgets everything at exit.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) == 2 && os.Args[1] == "stdio" { // as a command that the bot starts
		if err := newDesk("").mcp.Run(ctx, &mcp.StdioTransport{}); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, err)
		}
		return
	}
	addr := cmp.Or(os.Getenv("DESK_ADDR"), "127.0.0.1:3979")
	server := &http.Server{Addr: addr, Handler: newDesk(os.Getenv("DESK_TOKEN")), ReadHeaderTimeout: time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() }) // nothing here is worth waiting for
	fmt.Println("the stand-in listens on http://" + addr)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// desk serves both to whoever has the token. It is safe for concurrent use.
type desk struct {
	token string
	mcp   *mcp.Server
	mux   *http.ServeMux

	mu      sync.Mutex
	tickets []ticket
	stock   []item
}

type ticket struct {
	ID     int    `json:"id"`
	Title  string `json:"title"`
	Closed bool   `json:"closed"`
	Why    string `json:"why,omitempty"`
}

type item struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Left int    `json:"left"`
}

func newDesk(token string) *desk {
	const plenty = 1_000_000
	d := &desk{
		token: token, mux: http.NewServeMux(),
		tickets: []ticket{{ID: 1, Title: "The printer wants paper"}, {ID: 2, Title: "The VPN is down"}},
		stock:   []item{{"paper", "Paper, 500 sheets", plenty}, {"toner", "Toner, black", 1}},
	}
	d.mcp = d.tools()
	d.mux.Handle("/mcp", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return d.mcp }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}))
	d.mux.HandleFunc("GET /stock/items", d.items)
	d.mux.HandleFunc("POST /stock/orders", d.order)
	return d
}

// ServeHTTP answers whoever has the token.
func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if d.token == "" || r.Header.Get("Authorization") != "Bearer "+d.token {
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	d.mux.ServeHTTP(w, r)
}

type search struct {
	Words string `json:"words" jsonschema:"words in the title; empty for all tickets"`
}

type found struct {
	Tickets []ticket `json:"tickets"`
}

type opening struct {
	Title string `json:"title" jsonschema:"what is wrong, in a few words"`
}

type closing struct {
	ID  int    `json:"id" jsonschema:"the number of the ticket"`
	Why string `json:"why" jsonschema:"what solved it"`
}

type loan struct {
	Size  string `json:"size"`
	Until string `json:"until"`
}

// tools is the MCP server.
func (d *desk) tools() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "desk", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{
		Name: "search_tickets", Description: "Finds open tickets", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
	}, func(_ context.Context, _ *mcp.CallToolRequest, in search) (*mcp.CallToolResult, found, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		out := found{Tickets: []ticket{}}
		for _, t := range d.tickets {
			if !t.Closed && strings.Contains(strings.ToLower(t.Title), strings.ToLower(in.Words)) {
				out.Tickets = append(out.Tickets, t)
			}
		}
		return nil, out, nil
	})
	mcp.AddTool(server, &mcp.Tool{Name: "open_ticket", Description: "Opens a ticket"}, func(_ context.Context, _ *mcp.CallToolRequest, in opening) (*mcp.CallToolResult, ticket, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		t := ticket{ID: len(d.tickets) + 1, Title: in.Title}
		d.tickets = append(d.tickets, t)
		return nil, t, nil
	})
	mcp.AddTool(server, &mcp.Tool{Name: "close_ticket", Description: "Closes a ticket"}, func(_ context.Context, _ *mcp.CallToolRequest, in closing) (*mcp.CallToolResult, ticket, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if in.ID < 1 || in.ID > len(d.tickets) {
			return nil, ticket{}, fmt.Errorf("there is no ticket %d", in.ID)
		}
		t := &d.tickets[in.ID-1]
		t.Closed, t.Why = true, in.Why
		return nil, *t, nil
	})
	mcp.AddTool(server, &mcp.Tool{Name: "lend_laptop", Description: "Lends a laptop; asks the person which one, and until when"}, lend)
	mcp.AddTool(server, &mcp.Tool{Name: "delete_everything", Description: "Deletes all tickets"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, struct{}, error) {
		return nil, struct{}{}, errors.New("the bot must not come here: bot.yaml does not allow it")
	})
	return server
}

// lend asks the person before it answers.
func lend(_ context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, loan, error) {
	answer, ok := req.Params.InputResponses["laptop"].(*mcp.ElicitResult)
	if !ok {
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"laptop": &mcp.ElicitParams{
			Mode: "form", Message: "Which laptop, and until when?", RequestedSchema: json.RawMessage(laptopForm),
		}}}, loan{}, nil
	}
	if answer.Action != "accept" {
		return nil, loan{}, errors.New("nothing was lent: the person did not say which laptop")
	}
	size, _ := answer.Content["size"].(string)
	until, _ := answer.Content["until"].(string)
	return nil, loan{Size: size, Until: until}, nil
}

const laptopForm = `{"type":"object","required":["size","until"],"properties":{
	"size":{"type":"string","title":"Size","enum":["13 inches","16 inches"],"default":"13 inches"},
	"until":{"type":"string","title":"Until","description":"a day, such as Friday"}}}`

// items lists what is left.
func (d *desk) items(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := []item{}
	for _, i := range d.stock {
		if strings.Contains(strings.ToLower(i.Name), strings.ToLower(r.FormValue("name"))) {
			found = append(found, i)
		}
	}
	answer(w, http.StatusOK, "application/json", map[string]any{"items": found, "warehouse": "east"})
}

// order takes things out of the stock.
func (d *desk) order(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Item     string `json:"item"`
		Quantity int    `json:"quantity"`
	}
	problem := func(status int, title, detail string) {
		answer(w, status, "application/problem+json", map[string]string{"title": title, "detail": detail})
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&in); err != nil || in.Quantity < 1 {
		problem(http.StatusBadRequest, "No order", "an order has an item and a quantity")
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.stock {
		if s := &d.stock[i]; s.ID == in.Item {
			if s.Left < in.Quantity {
				problem(http.StatusConflict, "Not enough", fmt.Sprintf("only %d left", s.Left))
				return
			}
			s.Left -= in.Quantity
			answer(w, http.StatusCreated, "application/json", map[string]any{"item": s.ID, "left": s.Left})
			return
		}
	}
	problem(http.StatusNotFound, "Not found", "no item "+in.Item)
}

func answer(w http.ResponseWriter, status int, kind string, v any) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the caller may be gone
}
