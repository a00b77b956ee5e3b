// Package entra gets the tokens of Microsoft Entra ID that Azure OpenAI takes instead of a key.
package entra

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/planbot-go/planbot/internal/spelling"
)

// Token returns a function that returns a token for Azure OpenAI in a cloud of BOT_CLOUD (""
// means public). It uses the first identity that it finds, in the order of
// [azidentity.DefaultAzureCredential]: among them a workload identity, a managed identity
// (AZURE_CLIENT_ID names one that is assigned by users), and who is signed in to the Azure CLI. The
// tokens are cached and renewed. The function ends with its ctx and may be used concurrently. Its
// errors say what each identity lacks, and quote no answer.
//
// client sends the requests; nil: azidentity's own. The error is a wrong AZURE_TOKEN_CREDENTIALS,
// which the function then returns, too.
func Token(cloudName string, client *http.Client) (token func(context.Context) (string, error), err error) {
	scope, options := "https://cognitiveservices.azure.com/.default", azcore.ClientOptions{}
	switch cloudName {
	case "gcch", "dod":
		scope, options.Cloud = "https://cognitiveservices.azure.us/.default", cloud.AzureGovernment
	case "china":
		scope, options.Cloud = "https://cognitiveservices.azure.cn/.default", cloud.AzureChina
	}
	if client != nil {
		options.Transport = client
	}
	credential, err := azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{ClientOptions: options})
	if err != nil {
		return func(context.Context) (string, error) { return "", err }, err
	}
	get := func(ctx context.Context) (string, error) {
		t, err := credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{scope}})
		if err != nil && ctx.Err() == nil {
			err = errors.New(cause(err))
		}
		return t.Token, err
	}
	return func(ctx context.Context) (string, error) {
		type result struct {
			token string
			err   error
		}
		got := make(chan result, 1)
		go func() { // one call looks for the identity, within its own ctx, and the others wait for it whatever theirs say
			token, err := get(ctx)
			got <- result{token, err}
		}()
		select {
		case r := <-got:
			return r.token, r.err
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}, nil
}

var (
	responseStatus = regexp.MustCompile(`^\s*RESPONSE (\d{3}):`)
	entraCode      = regexp.MustCompile(`AADSTS\d{1,12}`)
	jsonWebToken   = regexp.MustCompile(`eyJ[\w.-]{8,}`)
	advice         = regexp.MustCompile(`\.? (?:To troubleshoot|See https?:).*`)
)

// cause shortens an error of azidentity to one line: what each identity that was tried says. Of an
// endpoint's answer it keeps only the status and Entra's codes.
func cause(err error) string {
	const maxEach, maxAll = 200, 1000
	var tried []string
	for line := range strings.Lines(err.Error()) {
		text := strings.TrimSpace(line)
		status, code := responseStatus.FindStringSubmatch(line), entraCode.FindString(line)
		last := len(tried) - 1
		switch {
		case strings.HasSuffix(text, "failed to acquire a token.") || text == "Attempted credentials:":
		case len(tried) == 0 || strings.HasPrefix(line, "\t") && !strings.HasPrefix(line, "\t\t"): // an identity, the rest is indented
			text, _, _ = strings.Cut(text, "{") // an answer
			text = jsonWebToken.ReplaceAllString(advice.ReplaceAllString(text, ""), "…")
			tried = append(tried, spelling.OneLine(strings.TrimSuffix(text, "."), maxEach))
		case status != nil:
			tried[last] += ", status " + status[1]
		case code != "" && !strings.Contains(tried[last], code):
			tried[last] += ", " + code
		}
	}
	return spelling.OneLine(strings.Join(tried, "; "), maxAll)
}

// Identity says whose token it is: an app's or a person's. "": the token does not say. Nothing
// proves that the token is genuine.
func Identity(token string) string {
	var claims struct {
		App      string `json:"appid"`
		Person   string `json:"upn"`
		Tenant   string `json:"tid"`
		Resource string `json:"xms_mirid"` // of a managed identity
	}
	_, payload, _ := strings.Cut(token, ".")
	payload, _, _ = strings.Cut(payload, ".")
	raw, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil || json.Unmarshal(raw, &claims) != nil {
		return ""
	}
	var about []string
	for _, part := range [][2]string{
		{"", claims.Person}, {"app ", claims.App}, {"managed identity ", claims.Resource[strings.LastIndex(claims.Resource, "/")+1:]}, {"tenant ", claims.Tenant},
	} {
		if part[1] != "" && (part[0] != "app " || claims.Person == "") { // a person's app is the Azure CLI
			about = append(about, part[0]+spelling.OneLine(part[1], 128))
		}
	}
	return strings.Join(about, ", ")
}
