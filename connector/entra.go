package connector

import (
	"net/http"
	"slices"
	"strings"
)

// entra judges the tokens of [Callers], which Microsoft Entra issues to apps. All that it
// compares with is configured: nothing is learnt from a token. Entra signs for all of its
// tenants with the same keys, so that the tenant is checked wherever a token names it.
type entra struct {
	keys    *keySet
	issuers []string
	tenant  string
	apps    []string
}

func newEntra(cfg GuardConfig, client *http.Client) (*entra, error) {
	if err := cfg.Callers.check(cfg.AppID); err != nil {
		return nil, err
	}
	tenant := strings.ToLower(cfg.Callers.Tenant)
	metadata, err := trustedURL("login URL", cfg.Cloud.EntraMetadataURL(tenant))
	if err != nil {
		return nil, err
	}
	e := &entra{tenant: tenant, apps: cfg.Callers.apps(cfg.AppID)}
	for _, issuer := range cfg.Cloud.EntraIssuers {
		e.issuers = append(e.issuers, strings.Replace(issuer, "{tenant}", tenant, 1))
	}
	e.keys = newKeySet(client, metadata, cfg.Now)
	return e, nil
}

// issued reports whether the token says that it comes from there.
func (e *entra) issued(p *payload) bool {
	return e != nil && slices.Contains(e.issuers, p.Issuer)
}

// caller returns the app that the token was issued to, which has to be one of the
// allowed ones. A token that a person got through such an app is not the app's.
func (e *entra) caller(p *payload) (appID string, err error) {
	var app string
	switch p.Version {
	case "1.0":
		app = strings.ToLower(p.AppID)
	case "2.0":
		app = strings.ToLower(p.AuthorizedParty)
	default:
		return "", unauthorized("token of an unknown version")
	}
	switch {
	case !sameID(p.Tenant, e.tenant):
		return "", unauthorized("token of another tenant")
	case p.Scopes != nil || p.Kind != "" && p.Kind != "app":
		return "", unauthorized("token of a person")
	case !slices.Contains(e.apps, app):
		return "", unauthorized("caller not allowed")
	default:
		return app, nil
	}
}
