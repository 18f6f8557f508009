import { CodedError } from '../../../lib/coded-error.ts';
import type { CallSignal, Upstream, UpstreamReply, UpstreamRequest } from '../../../ports/upstream.ts';
import { orAborted } from '../../../runtime/waiting.ts';
import type { IdentityWatch } from './identity.ts';
import { isInService, type PoolMember, type UpstreamHealth } from './member.ts';

interface SendingParts {
  readonly label: string;
  readonly memberOf: (upstream: Upstream) => PoolMember | undefined;
  readonly identity: Pick<IdentityWatch, 'pending'>;
}

/** Sends requests to members of a pool: never to one that may have become another chain. */
export function createSending({ label, memberOf, identity }: SendingParts) {
  /** Waits for an identity check in flight, within the deadline of the caller. */
  async function identified(member: PoolMember, signal: CallSignal | undefined): Promise<void> {
    const question = identity.pending(member);
    if (question !== null) await (signal === undefined ? question : orAborted(question, signal));
  }

  return async (upstream: Upstream, request: UpstreamRequest): Promise<UpstreamReply> => {
    const member = memberOf(upstream);
    if (member === undefined)
      throw new CodedError('UPSTREAM_CONNECT', `${upstream.label} is no upstream of pool ${label} any more`, {
        retryable: true,
      });
    if (identity.pending(member) !== null) await identified(member, request.signal);
    if (!isInService(member.health))
      throw new CodedError('UPSTREAM_CONNECT', `${upstream.label} is out of service`, { retryable: true });
    member.health.inFlight += 1;
    const ended = () => {
      member.health.inFlight -= 1;
    };
    let reply: UpstreamReply;
    try {
      reply = await member.transport.send(withKnownCommitment(member.health, request));
    } catch (error) {
      ended();
      throw error;
    }
    if (reply.whole === null) reply.body.once('close', ended);
    else ended();
    try {
      // The connection may have broken while the request waited, and the next one may lead to another chain.
      if (identity.pending(member) !== null) await identified(member, request.signal);
      if (!isInService(member.health))
        throw new CodedError('UPSTREAM_FAILED', `${upstream.label} is out of service`, { retryable: true });
      return reply;
    } catch (error) {
      if (reply.whole === null) reply.body.destroy();
      throw error;
    }
  };
}

const CONFIRMED = /"(commitment|preflightCommitment)"(\s*:\s*)"confirmed"/g;

/** The request in words that the upstream knows: one that refuses `confirmed` is asked for `finalized`. */
function withKnownCommitment(health: UpstreamHealth, request: UpstreamRequest): UpstreamRequest {
  if (!health.refusesConfirmed) return request;
  return { ...request, body: String(request.body).replace(CONFIRMED, '"$1"$2"finalized"') };
}
