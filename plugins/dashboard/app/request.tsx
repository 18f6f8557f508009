import { get, type KeptRequest, type Key, type Project } from './api.ts';
import { bytes, duration, short, utc } from './format.ts';
import { href } from './place.ts';
import { isPortal } from './portal.ts';
import { Badge, Card, Code, Head, Id, Show, Stat, useLoad } from './ui.tsx';
import { keyNameOf, requestStatusOf, toneOf } from './usage.tsx';

/** One of the last requests: what it contained, why it failed, and how to repeat it. */
export function RequestPage({ project, id }: { project: Project; id: string }) {
  const path = `/projects/${project.id}`;
  const found = useLoad(() => get<{ request: KeptRequest }>(`${path}/requests/${id}`), [project.id, id]);
  const keys = useLoad(() => get<{ keys: readonly Key[] }>(`${path}/keys`), [project.id]);
  return (
    <>
      <Head
        title="Request"
        back={{ href: href(['p', project.id, 'requests']), text: 'Requests' }}
        note={<Id text={id} />}
      />
      <Show of={found} lines={8}>
        {({ request }) => <Detail request={request} keys={keys.data?.keys ?? []} />}
      </Show>
    </>
  );
}

function Detail({ request, keys }: { request: KeptRequest; keys: readonly Key[] }) {
  const { content } = request;
  const problems = content?.failure == null ? [] : problemsIn(content.failure);
  const reason = whyOf(request, problems);
  return (
    <>
      <Card flush>
        <dl class="stats">
          <Stat name="Status">
            <Badge tone={toneOf(request)}>{requestStatusOf(request)}</Badge>
          </Stat>
          <Stat name="Latency">{duration(request.durationMs)}</Stat>
          <Stat name="Answer">{bytes(request.bytesOut)}</Stat>
          <Stat name="Credits">{short(request.credits)}</Stat>
          <Stat name="Key">{keyNameOf(keys, request.keyId)}</Stat>
        </dl>
      </Card>
      {reason !== null && (
        <Card title="Why it failed">
          {problems.map(({ code, message }) => (
            <p key={`${code} ${message}`} class="strong">
              {message}
              {code !== null && <span class="soft"> ({code})</span>}
            </p>
          ))}
          <p>
            {reason}{' '}
            {!isPortal && (
              <a href="/docs" target="_blank" rel="noreferrer">
                Reference of the API
              </a>
            )}
          </p>
        </Card>
      )}
      <Card title="Request" note={`${utc(request.at)} UTC`}>
        <p class="target">
          <code>
            {request.method} {content === null ? request.route : withQuery(content.path, content.query)}
          </code>
        </p>
        {content === null ? (
          <p class="soft">
            What it contained is not kept: it had to make room for later requests, or{' '}
            <code>dashboard.requestBodies</code> is off.
          </p>
        ) : content.body === null ? (
          <p class="soft">{request.method === 'GET' ? 'It has no body.' : 'It has no body, or was refused before.'}</p>
        ) : (
          <>
            <Code label="request body" value={pretty(content.body)} />
            {content.isCut && <p class="soft small">The first 4 kB of {bytes(content.bodyBytes)}.</p>}
          </>
        )}
      </Card>
      {content?.failure != null && (
        <Card title="Answer">
          <Code label="answer" value={pretty(content.failure)} />
        </Card>
      )}
      {content !== null && (
        <Card title="Again, with curl">
          <Code label="command" value={curlOf(request, content)} />
          <p class="soft small">
            Put a key of the project in the place of KEY.
            {!content.isWhole && ' What is masked as *** or cut off has to be put in again, too.'}
          </p>
        </Card>
      )}
    </>
  );
}

const withQuery = (path: string, query: string): string => (query === '' ? path : `${path}?${query}`);

/** JSON on lines of its own; another text as it is. */
function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

interface Problem {
  readonly code: number | null;
  readonly message: string;
}

const MAX_PROBLEMS = 5;

/** The errors that an answer tells: of a route, a call, or the calls of a batch. */
function problemsIn(text: string): readonly Problem[] {
  let answer: unknown;
  try {
    answer = JSON.parse(text);
  } catch {
    return [];
  }
  const found = (Array.isArray(answer) ? answer : [answer]).flatMap((one: unknown) => problemOf(one) ?? []);
  return [...new Map(found.map((one) => [`${one.code} ${one.message}`, one])).values()].slice(0, MAX_PROBLEMS);
}

function problemOf(answer: unknown): Problem | null {
  const { error, code, details, message } = (answer ?? {}) as Readonly<Record<string, unknown>>;
  const own = typeof code === 'number' ? code : null;
  if (typeof error === 'object' && error !== null) return problemOf(error);
  const text = typeof error === 'string' ? error : typeof message === 'string' ? message : null;
  if (text === null) return null;
  return { code: own, message: typeof details === 'string' ? `${text}: ${details}` : text };
}

const OF_CALLS: Readonly<Record<number, string>> = {
  [-32700]: 'The body is not JSON.',
  [-32600]: 'The body is not a call of JSON-RPC: it needs jsonrpc, id and method.',
  [-32601]: 'No method has this name here, or the key may not call it.',
  [-32602]: 'The parameters are not as the reference describes them. The message names which one.',
  [-32603]: 'The daemon or its node could not answer. The same call may succeed later.',
};

const OF_STATUS: Readonly<Record<number, string>> = {
  400: 'A parameter or the body is not as the reference describes it. The message names which one.',
  401: 'The key is missing, unknown, expired or revoked.',
  402: 'The project has no credits, or the call has to be paid for.',
  403: 'The key may not do this: look at its permissions, addresses and origins.',
  404: 'What the request names is not there, or belongs to another project.',
  405: 'The route does not have this method.',
  409: 'What the request names is in a state in which this cannot be done.',
  413: 'The body is larger than the route takes.',
  415: 'The body is encoded; send it plain.',
  429: 'More requests than the plan of the project allows, or its credits are used up. Wait as Retry-After says.',
  499: 'The client closed the connection before the answer. Its own time limit is a common cause.',
  502: 'The node behind the daemon gave no answer that can be used.',
  503: 'The daemon was busy or stopping. The same request may succeed later.',
  504: 'The answer took longer than the daemon waits.',
};

/** Null: it did not fail. */
function whyOf({ status, rpcFailed }: KeptRequest, problems: readonly Problem[]): string | null {
  if (status < 400 && rpcFailed === 0) return null;
  const ofCall = problems.map(({ code }) => OF_CALLS[code ?? 0]).find((text) => text !== undefined);
  if (ofCall !== undefined) return ofCall;
  if (OF_STATUS[status] !== undefined) return OF_STATUS[status];
  return status >= 500
    ? 'The daemon could not answer. Its log has a line with the id of the request.'
    : 'The call failed.';
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** A command for a shell that repeats the request. */
function curlOf({ method }: KeptRequest, content: NonNullable<KeptRequest['content']>): string {
  const { host, path, query, body } = content;
  const hasKey = /(^|&)api-key=/.test(query);
  const asked = query.replace(/(^|&)api-key=[^&]*/, '$1api-key=KEY');
  const url = `http://${host ?? 'HOST'}${withQuery(path, asked)}`;
  return [
    `curl ${quoted(url)}`,
    ...(method === 'GET' || (method === 'POST' && body !== null) ? [] : [`-X ${method}`]),
    ...(hasKey ? [] : [`-H 'x-api-key: KEY'`]),
    ...(body === null ? [] : [`-H 'content-type: application/json'`, `-d ${quoted(body)}`]),
  ].join(' \\\n  ');
}
