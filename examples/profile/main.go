// Command profile is a bot that acts in other services as the person who asks: it reads their calendar
// from Microsoft Graph, and their days off from the company's own service. See docs/teams.md, "Sign-in".
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/full"
)

// The OAuth connections of the Azure Bot. The scopes of graph are those of Microsoft Graph, such as
// Calendars.Read: the token service exchanges the person's token for one of Graph by itself. The scope
// of app is the app's own, api://botid-APP_ID/access_as_user.
const (
	graph = "graph"
	own   = "app"
)

// services are what the bot reads.
type services struct {
	client         *http.Client
	graph, staff   string // where they are
	scope          string // of staff
	appID, secret  string // of the app that people sign in to
	notBeforeToday func() time.Time
}

func assistant(s services) app.Bot {
	return app.Bot{
		Name: "Profile",
		Register: func(r *actions.Registry) {
			actions.Add(r, "readCalendar", "Lists the person's next meetings", s.calendar,
				actions.Title("Read your calendar"), actions.Example("what is in my calendar"), actions.NeedsToken(graph), actions.ReturnsData)
			actions.Add(r, "readDaysOff", "Says how many days off the person has left", s.daysOff,
				actions.Title("Read your days off"), actions.Example("how many days off do I have"), actions.NeedsToken(own), actions.ReturnsData)
		},
	}
}

func main() {
	app.Main(assistant(services{
		client: &http.Client{Timeout: 20 * time.Second},
		graph:  "https://graph.microsoft.com/v1.0", staff: os.Getenv("STAFF_URL"), scope: os.Getenv("STAFF_SCOPE"),
		appID: os.Getenv("SIGN_IN_APP_ID"), secret: os.Getenv("SIGN_IN_APP_SECRET"), notBeforeToday: time.Now,
	}), full.Features()...)
}

// calendar reads Graph with the person's token for it.
func (s services) calendar(ctx context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
	token, err := turn.UserToken(ctx, graph)
	if err != nil {
		return actions.Result{}, err
	}
	from := s.notBeforeToday().UTC()
	query := url.Values{
		"startDateTime": {from.Format(time.RFC3339)}, "endDateTime": {from.AddDate(0, 0, 7).Format(time.RFC3339)},
		"$select": {"subject,start"}, "$orderby": {"start/dateTime"}, "$top": {"5"},
	}
	var found struct {
		Value []struct {
			Subject string
			Start   struct{ DateTime string }
		}
	}
	if err := s.get(ctx, s.graph+"/me/calendarView?"+query.Encode(), token.Secret(), &found); err != nil {
		return refused(err)
	}
	var lines []string
	for _, event := range found.Value {
		lines = append(lines, event.Start.DateTime+" "+event.Subject)
	}
	return actions.Text("%s", strings.Join(lines, "\n")), nil
}

// daysOff reads the company's service. Its token is made of the one that the person has for the bot's
// app, on behalf of them. Neither is kept: each turn signs in anew.
func (s services) daysOff(ctx context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
	token, err := turn.UserToken(ctx, own)
	if err != nil {
		return actions.Result{}, err
	}
	tenant, _ := turn.Activity.Tenant()
	credential, err := azidentity.NewOnBehalfOfCredentialWithSecret(tenant, s.appID, token.Secret(), s.secret,
		&azidentity.OnBehalfOfCredentialOptions{ClientOptions: azcore.ClientOptions{Transport: s.client}})
	if err != nil {
		return actions.Result{}, errors.New("the sign-in app is not set up")
	}
	access, err := credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{s.scope}})
	if err != nil { // its text quotes the request
		return actions.Fail("the person has to consent first: they should say /signout, and ask again"), nil
	}
	var found struct{ Days int }
	if err := s.get(ctx, s.staff+"/me/days-off", access.Token, &found); err != nil {
		return refused(err)
	}
	return actions.Text("%d days", found.Days), nil
}

// errRefused says that the service does not take the token.
var errRefused = errors.New("the service refused the person's token")

func refused(err error) (actions.Result, error) {
	if errors.Is(err, errRefused) {
		return actions.Fail("%v: they should say /signout, and ask again", err), nil
	}
	return actions.Result{}, err
}

const maxAnswer = 1 << 20

func (s services) get(ctx context.Context, address, token string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusOK:
		return json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(into)
	case http.StatusUnauthorized, http.StatusForbidden:
		return errRefused
	}
	return fmt.Errorf("get %s: status %d", req.URL.Path, res.StatusCode)
}
