const HOSTED =
  /^https?:\/\/(?:(?:api|api-devnet|admin-api|dev-api)\.helius\.xyz|(?:[a-z0-9-]+\.)*helius-rpc\.com)(?=[/?#:]|$)/i;

/**
 * Sends every request that an unmodified hosted client addresses to the hosted service to a daemon instead. All traffic of
 * helius-sdk 3 looks up the global `fetch` at call time. The returned function puts the old one back.
 */
export function redirectHostedClients(base: string): () => void {
  const real = globalThis.fetch;
  const target = base.replace(/\/$/, '');
  globalThis.fetch = (input, init) => {
    const url = typeof input === 'string' ? input : input instanceof URL ? input.href : input.url;
    if (!HOSTED.test(url)) return real(input, init);
    const redirected = url.replace(/^https?:\/\/[^/?#]+/, target);
    return real(input instanceof Request ? new Request(redirected, input) : redirected, init);
  };
  return () => {
    globalThis.fetch = real;
  };
}
