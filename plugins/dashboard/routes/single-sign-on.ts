import { Type } from '@sinclair/typebox';
import { CodedError, defineRoute, messageOf, type Reply, type Route } from '../../../src/plugin/plugin.ts';
import { json, RequestError } from '../../../src/plugin/request.ts';
import { actorOf, identityName, type LoginBrake, readCookie, writeCookie } from '../sessions.ts';
import { CALLBACK_PATH, type SingleSignOn } from '../single-sign-on.ts';
import { API, missing, OPEN_ROUTE, type PageContext, REFUSALS } from './common.ts';

const KEPT_COOKIE = 'parhelion_login';
const KEPT_S = 600;
const text = Type.Optional(Type.String({ maxLength: 4_096 }));

/** Log-in by an identity provider. Browsers come here, not scripts: a failure leads back to the log-in page, which says what to do. */
export function singleSignOnRoutes(
  context: PageContext,
  sso: SingleSignOn | null,
  brake: LoginBrake,
): readonly Route[] {
  return [waysRoute(sso), beginRoute(context, sso), callbackRoute(context, sso, brake)];
}

const redirect = (location: string, headers: Readonly<Record<string, string>> = {}): Reply => ({
  status: 302,
  headers: { Location: location, 'Cache-Control': 'no-store', ...headers },
});
const backTo = (result: 'refused' | 'failed'): Reply => redirect(`/dashboard?login=${result}`);

function waysRoute(sso: SingleSignOn | null): Route {
  return defineRoute({
    ...OPEN_ROUTE,
    method: 'GET',
    path: `${API}/login`,
    summary: 'How operators can log in',
    replies: {
      200: Type.Object({
        provider: Type.Union([Type.String(), Type.Null()], {
          description: 'host of the identity provider; null: none',
        }),
      }),
    },
    handler: () => json({ provider: sso?.provider ?? null }),
  });
}

function beginRoute({ isSecure }: PageContext, sso: SingleSignOn | null): Route {
  return defineRoute({
    ...OPEN_ROUTE,
    method: 'GET',
    path: `${API}/oidc`,
    summary: 'Go to the identity provider to log in',
    replies: { 302: Type.Null(), ...REFUSALS, 501: REFUSALS[400] },
    async handler({ log }) {
      if (sso === null) throw missing('dashboard.oidc is not configured');
      try {
        const { location, kept } = await sso.begin();
        // Lax: the provider sends the browser back from its own site.
        const cookie = `${KEPT_COOKIE}=${kept}; Path=${API}/oidc; HttpOnly; SameSite=Lax; Max-Age=${KEPT_S}${isSecure ? '; Secure' : ''}`;
        return redirect(location, { 'Set-Cookie': cookie });
      } catch (error) {
        log.warn({ err: error }, 'the identity provider does not answer as it should');
        return backTo('failed');
      }
    },
  });
}

function callbackRoute(context: PageContext, sso: SingleSignOn | null, brake: LoginBrake): Route {
  const { audit, isSecure, sessions, standings } = context;
  return defineRoute({
    ...OPEN_ROUTE,
    method: 'GET',
    path: CALLBACK_PATH,
    summary: 'Where the identity provider sends the browser back to',
    query: Type.Object({ code: text, state: text, iss: text, error: text, error_description: text }),
    replies: { 302: Type.Null(), ...REFUSALS, 429: REFUSALS[400], 501: REFUSALS[400] },
    async handler({ query, headers, remoteAddress, log }) {
      if (sso === null) throw missing('dashboard.oidc is not configured');
      // Each try asks the provider: those of an address that mostly fail are as slow as wrong tokens.
      const waitS = brake.waitS(remoteAddress);
      if (waitS > 0) throw new RequestError(429, 'Too many wrong logins', { retryAfterS: waitS });
      const refuse = async (target: string): Promise<Reply> => {
        brake.failed(remoteAddress);
        await brake.pause();
        const entry = { actor: 'nobody', address: remoteAddress, action: 'session.refused', target };
        await audit.record(entry, () => Promise.resolve());
        return backTo('refused');
      };
      // A session that is ended for all, while the provider is asked, must not come to life afterwards.
      const ends = await standings.ends();
      let identity: Awaited<ReturnType<SingleSignOn['finish']>>;
      try {
        identity = await sso.finish(query, readCookie(headers['cookie'], KEPT_COOKIE) ?? '');
      } catch (error) {
        if (error instanceof CodedError && error.retryable) {
          log.warn({ err: error }, 'the identity provider does not answer as it should');
          return backTo('failed');
        }
        log.info({ reason: messageOf(error) }, 'a log-in by the identity provider was refused');
        return await refuse('operator');
      }
      if (identity === null) return await refuse('operator');
      const name = identityName(identity);
      const standing = (await standings.read([name], ends)).get(name) ?? null;
      sessions.close(readCookie(headers['cookie']) ?? '');
      const { token, session } = sessions.open(identity, standing);
      const entry = { actor: actorOf(session), address: remoteAddress, action: 'session.open', target: name };
      await audit.record(entry, () => Promise.resolve());
      return redirect('/dashboard', { 'Set-Cookie': writeCookie(token, isSecure) });
    },
  });
}
