package state

import "context"

// Info returns what the server says of itself, the text of the INFO command: of
// a cluster, that of one node.
func (r *Redis) Info(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	text, err := r.client.Info(ctx).Result()
	if err != nil {
		return "", explain(ctx, "ask redis for its info", err)
	}
	return text, nil
}

// Setting returns one setting of the server, as CONFIG GET tells it. Hosted
// servers often refuse.
func (r *Redis) Setting(ctx context.Context, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	values, err := r.client.ConfigGet(ctx, name).Result()
	if err != nil {
		return "", explain(ctx, "ask redis for its setting "+name, err)
	}
	return values[name], nil
}
