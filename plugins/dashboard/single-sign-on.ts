import { isIP } from 'node:net';
import { EXIT } from '../../src/lib/coded-error.ts';
import { lazy } from '../../src/lib/lazy.ts';
import { CodedError, messageOf } from '../../src/plugin/plugin.ts';
import { callPeer } from '../../src/runtime/call-peer.ts';
import { loadOptional, type OptionalPackage } from '../../src/runtime/optional-package.ts';
import { DASHBOARD_ERRORS, type DashboardConfig } from './config.ts';
import type { Identity } from './sessions.ts';

/** Log-in by an identity provider (OpenID Connect, authorization code with PKCE). */
export interface SingleSignOn {
  /** The host of the provider, for the button. */
  readonly provider: string;
  /** Loads the package. Errors: DASHBOARD_OIDC. */
  ready(): Promise<void>;
  /** Where the browser goes, and what its cookie keeps until it comes back. Errors: DASHBOARD_OIDC: the provider does not answer as it should. */
  begin(): Promise<{ readonly location: string; readonly kept: string }>;
  /**
   * Who came back with these parameters; null: the provider knows this person, and no list of the configuration does. Errors: DASHBOARD_OIDC:
   * the answer of the provider is refused, or is that to another log-in than the one that was kept; retryable: the provider is away.
   */
  finish(params: Readonly<Record<string, string | undefined>>, kept: string): Promise<Identity | null>;
}

const PACKAGE: OptionalPackage = { name: 'openid-client', version: '6.9.0' };
/** Of one call to the provider. */
const TIMEOUT_S = 10;
/** What a provider may send of keys, tokens or its own description. */
const MAX_ANSWER_BYTES = 1_048_576;

export const CALLBACK_PATH = '/dashboard/api/oidc/callback';

/** What is used of the package. */
interface OpenIdClient {
  readonly customFetch: symbol;
  discovery(server: URL, clientId: string, secret: string, auth: undefined, options: object): Promise<object>;
  allowInsecureRequests(config: object): void;
  randomPKCECodeVerifier(): string;
  calculatePKCECodeChallenge(verifier: string): Promise<string>;
  randomState(): string;
  randomNonce(): string;
  buildAuthorizationUrl(config: object, params: Readonly<Record<string, string>>): URL;
  authorizationCodeGrant(
    config: object,
    current: URL,
    checks: {
      readonly pkceCodeVerifier: string;
      readonly expectedState: string;
      readonly expectedNonce: string;
      readonly idTokenExpected: true;
    },
  ): Promise<{ claims(): Claims | undefined }>;
}

type Claims = Readonly<Record<string, unknown>>;

/** One log-in on its way. */
interface KeptLogin {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
}

const oidcRefused = (reason: string): CodedError =>
  new CodedError('DASHBOARD_OIDC', `${DASHBOARD_ERRORS.DASHBOARD_OIDC}: ${reason}`, { exitCode: EXIT.config });

/** Null without an issuer. Errors: DASHBOARD_OIDC: the configuration is not complete. */
export function createSingleSignOn({ oidc }: Pick<DashboardConfig, 'oidc'>): SingleSignOn | null {
  const { issuer, clientId, clientSecret, publicUrl } = oidc;
  if (issuer === null) return null;
  if (clientId === null || clientSecret === null || publicUrl === null)
    throw oidcRefused('clientId, clientSecret and publicUrl must be set beside issuer');
  if (oidc.operators.length + oidc.viewers.length === 0)
    throw oidcRefused('nobody may log in: name them in operators or viewers');
  const server = new URL(issuer);
  const isPlain = server.protocol === 'http:';
  if (isPlain && !isLoopback(server.hostname)) throw oidcRefused('issuer must be an https address');
  const back = new URL(CALLBACK_PATH, publicUrl);
  const load = lazy(() => loadOptional<OpenIdClient>(PACKAGE, [process.cwd()], oidcRefused));
  let provider: Promise<object> | null = null;

  /** The provider's description is read once; a failure is tried again by the next log-in. */
  async function discovered(client: OpenIdClient): Promise<object> {
    provider ??= client.discovery(server, clientId!, clientSecret!, undefined, {
      timeout: TIMEOUT_S,
      execute: isPlain ? [client.allowInsecureRequests] : [],
      [client.customFetch]: ask,
    });
    try {
      return await provider;
    } catch (error) {
      provider = null;
      throw error;
    }
  }

  const named = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      if (error instanceof CodedError) throw error;
      throw new CodedError('DASHBOARD_OIDC', `${DASHBOARD_ERRORS.DASHBOARD_OIDC}: ${messageOf(error)}`, {
        cause: error,
        retryable: isAway(error),
      });
    }
  };

  return {
    provider: server.host,
    ready: async () => {
      await load();
    },
    begin: () =>
      named(async () => {
        const client = await load();
        const config = await discovered(client);
        const kept: KeptLogin = {
          state: client.randomState(),
          nonce: client.randomNonce(),
          verifier: client.randomPKCECodeVerifier(),
        };
        const { href } = client.buildAuthorizationUrl(config, {
          redirect_uri: back.href,
          scope: oidc.scope,
          state: kept.state,
          nonce: kept.nonce,
          code_challenge: await client.calculatePKCECodeChallenge(kept.verifier),
          code_challenge_method: 'S256',
        });
        return { location: href, kept: Buffer.from(JSON.stringify(kept)).toString('base64url') };
      }),
    finish: (params, kept) =>
      named(async () => {
        const { state, nonce, verifier } = readKept(kept);
        const current = new URL(back);
        for (const [name, value] of Object.entries(params))
          if (value !== undefined) current.searchParams.set(name, value);
        const client = await load();
        const tokens = await client.authorizationCodeGrant(await discovered(client), current, {
          pkceCodeVerifier: verifier,
          expectedState: state,
          expectedNonce: nonce,
          idTokenExpected: true,
        });
        const claims = tokens.claims();
        return claims === undefined ? null : identityOf(claims, oidc);
      }),
  };
}

/** The provider does not answer, or says that it cannot: nobody did anything wrong. */
class ProviderAway extends Error {}

function isAway(error: unknown): boolean {
  for (let at = error; at instanceof Error; at = at.cause) if (at instanceof ProviderAway) return true;
  return false;
}

const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '[::1]' || (isIP(host) === 4 && host.startsWith('127.'));

function readKept(kept: string): KeptLogin {
  try {
    const { state, nonce, verifier } = JSON.parse(Buffer.from(kept, 'base64url').toString()) as Record<string, unknown>;
    if (typeof state === 'string' && typeof nonce === 'string' && typeof verifier === 'string')
      return { state, nonce, verifier };
  } catch {
    // The same as a cookie without them.
  }
  throw oidcRefused('the log-in was not begun in this browser, or took more than ten minutes');
}

interface Lists {
  readonly operators: readonly string[];
  readonly viewers: readonly string[];
  readonly groupsClaim: string;
}

/** The role that the lists give to these claims; null: none. */
export function identityOf(claims: Claims, { operators, viewers, groupsClaim }: Lists): Identity | null {
  const { sub, email, email_verified: isVerified } = claims;
  if (typeof sub !== 'string') return null;
  // Whoever may type an address into a profile is not its owner.
  const address = typeof email === 'string' && isVerified === true ? email.toLowerCase() : null;
  const given = claims[groupsClaim];
  const groups = Array.isArray(given) ? given : typeof given === 'string' ? [given] : [];
  const fits = (entry: string): boolean => {
    if (entry.startsWith('sub:')) return entry.slice(4) === sub;
    if (entry.startsWith('group:')) return groups.includes(entry.slice(6));
    if (address === null) return false;
    return entry.startsWith('*@')
      ? address.slice(address.lastIndexOf('@')) === entry.slice(1).toLowerCase()
      : address === entry.toLowerCase();
  };
  const name = (address ?? `sub:${sub}`).slice(0, MAX_NAME);
  if (operators.some(fits)) return { role: 'operator', name };
  return viewers.some(fits) ? { role: 'viewer', name } : null;
}

const MAX_NAME = 200;

/** As the package asks; without redirects, which it refuses anyway. */
async function ask(
  address: string,
  options: {
    readonly method: string;
    readonly headers: Record<string, string>;
    readonly body?: URLSearchParams | string | null;
    readonly signal?: AbortSignal;
  },
): Promise<Response> {
  const { method, headers, body, signal } = options;
  const answer = await callPeer(address, {
    method,
    headers,
    ...(body === undefined || body === null ? {} : { body: body.toString() }),
    ...(signal === undefined ? {} : { signal }),
    silenceMs: TIMEOUT_S * 1_000,
  }).catch((error: unknown) => {
    throw new ProviderAway(messageOf(error), { cause: error });
  });
  if (answer.status >= 500) throw new ProviderAway(`the provider answers with status ${answer.status}`);
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of answer.body ?? []) {
    bytes += part.length;
    if (bytes > MAX_ANSWER_BYTES) throw new Error('the answer of the provider is too long');
    parts.push(part);
  }
  return new Response(parts.length === 0 ? null : Buffer.concat(parts), {
    status: answer.status,
    headers: answer.headers,
  });
}
