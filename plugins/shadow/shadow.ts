/**
 * Compares a share of the answers with those of the reference. A chosen request waits in a bounded queue; none of it delays an answer, and what
 * does not fit, in number, bytes or budget, is skipped and counted by its reason.
 */

import type { Clock, Log, Metrics, Random } from '../../src/plugin/plugin.ts';
import type { AnswerTap, TappedRequest, Tapping, WholeAnswer } from '../../src/ports/answer-tap.ts';
import type { Priced } from '../../src/ports/daemon-view.ts';
import type { Counter } from '../../src/ports/telemetry.ts';
import type { Budget } from './budget.ts';
import { type ComparedCall, callsOf, isComparedRoute, questionOf, RPC_NAME } from './calls.ts';
import { compareAnswers, type ReadAnswer, readAnswer } from './compare.ts';
import type { ShadowConfig } from './config.ts';
import { explain } from './explain.ts';
import type { Reference, ReferenceReply } from './reference.ts';
import type { ExplainedDifference, Outcome, Results } from './results.ts';
import { rulesOf } from './rules.ts';

export interface ShadowParts {
  readonly config: ShadowConfig;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly budget: Budget;
  readonly reference: Reference;
  readonly results: Results;
  priceOf(name: string): Priced;
}

export interface Shadow extends AnswerTap {
  /** Waits until nothing waits or runs. */
  idle(): Promise<void>;
  stop(): void;
}

type SkipReason = 'full' | 'memory' | 'long' | 'budget' | 'product' | 'unanswered';

/** A chosen request. */
interface Work {
  readonly request: TappedRequest;
  readonly ours: WholeAnswer;
  /** What the reference has said already, with `answers: reference`. */
  readonly reply: ReferenceReply | null;
  readonly bytes: number;
}

/**
 * Chosen requests are `waiting`, or `running` while they are compared; `heldBytes` is the sum of both. What does not fit is counted by its
 * reason and forgotten, and an error of the reference is never one of the client.
 */
class Comparison implements Shadow {
  private readonly parts: ShadowParts;
  private readonly compared: Counter;
  private readonly skippedTotal: Counter;
  private readonly replies: Counter;
  private readonly stopping = new AbortController();
  private readonly waiting: Work[] = [];
  private readonly idlers = new Set<() => void>();
  private running = 0;
  private heldBytes = 0;

  constructor(parts: ShadowParts) {
    this.parts = parts;
    this.compared = parts.metrics.counter('compared_total', 'compared answers by product and outcome', [
      'product',
      'outcome',
    ]);
    this.skippedTotal = parts.metrics.counter('skipped_total', 'chosen requests that were not compared, by reason', [
      'reason',
    ]);
    this.replies = parts.metrics.counter('reference_replies_total', 'replies of the reference by kind', ['kind']);
    parts.metrics.observe('waiting_requests', 'chosen requests that wait for the reference', () => this.waiting.length);
    parts.metrics.observe(
      'held_bytes',
      'bytes of requests and answers that wait or are compared',
      () => this.heldBytes,
    );
  }

  private skip(reason: SkipReason): void {
    this.skippedTotal.with(reason).add();
  }

  private shareOf(name: string): number {
    return (
      this.parts.config.shares[name] ??
      this.parts.config.shares[this.parts.priceOf(name).product] ??
      this.parts.config.share
    );
  }

  private greatestShare(): number {
    return Math.max(this.parts.config.share, ...Object.values(this.parts.config.shares));
  }

  /** For JSON-RPC the method is not known when the request is drawn: the second draw makes up the difference. */
  private drawsMethod(method: string): boolean {
    const most = this.greatestShare();
    return most > 0 && this.parts.random.float() < this.shareOf(method) / most;
  }

  private enqueue(work: Work): void {
    if (this.stopping.signal.aborted) return;
    const isFull = this.waiting.length >= this.parts.config.maxWaiting;
    if (isFull || this.heldBytes + work.bytes > this.parts.config.maxBytesInMemory) {
      this.skip(isFull ? 'full' : 'memory');
      return;
    }
    this.heldBytes += work.bytes;
    this.waiting.push(work);
    // After the answer has left.
    setImmediate(() => this.pump());
  }

  private pump(): void {
    while (this.running < this.parts.config.maxConcurrent) {
      const work = this.waiting.shift();
      if (work === undefined) break;
      this.running += 1;
      this.compareRequest(work)
        .catch((error: unknown) => this.parts.log.warn({ err: error }, 'an answer could not be compared'))
        .finally(() => {
          this.running -= 1;
          this.heldBytes -= work.bytes;
          this.pump();
        });
    }
    if (this.running === 0 && this.waiting.length === 0) for (const wake of this.idlers) wake();
  }

  private async compareRequest({ request, ours, reply }: Work): Promise<void> {
    const calls = callsOf(request, ours);
    for (const call of calls) {
      if (this.stopping.signal.aborted) return;
      if (request.name === RPC_NAME && reply === null && !this.drawsMethod(call.name)) continue;
      await this.compareCall(call, reply);
    }
  }

  private async compareCall(call: ComparedCall, given: ReferenceReply | null): Promise<void> {
    const { product } = this.parts.priceOf(call.name);
    const reply = given ?? (await this.ask(call));
    if (reply === null) return;
    if (reply.kind !== 'answer') {
      this.skip(reply.kind === 'large' ? 'long' : 'unanswered');
      if (reply.kind !== 'large') this.count(call.name, product, 'unanswered');
      return;
    }
    const ours = readAnswer(call.ours);
    let theirs = reply.answer;
    let differences = this.differencesOf(call.name, ours, readReply(reply));
    if (differences.some(({ reason }) => reason === '')) {
      await this.parts.clock.sleep(this.parts.config.recheckMs, this.stopping.signal);
      const again = await this.ask(call);
      if (again !== null && again.kind === 'answer') {
        const later = this.differencesOf(call.name, ours, readReply(again));
        if (later.length === 0) differences = differences.map((one) => ({ ...one, reason: one.reason || 'lag' }));
        else if (!later.some(({ reason }) => reason === '')) {
          differences = later;
          theirs = again.answer;
        }
      }
    }
    const outcome = outcomeOf(differences);
    this.count(call.name, product, outcome);
    if (outcome === 'equal') return;
    const { question } = call;
    const text = question.kind === 'rpc' ? question.body : `${question.target}\n${question.body ?? ''}`;
    this.parts.results.note({ method: call.name, product, question: text, ours: call.ours, theirs, differences });
  }

  private count(method: string, product: string, outcome: Outcome): void {
    this.compared.with(product, outcome).add();
    this.parts.results.count(method, product, outcome);
  }

  private differencesOf(name: string, ours: ReadAnswer, theirs: ReadAnswer): readonly ExplainedDifference[] {
    const rules = rulesOf(name, this.parts.config.ignore);
    return compareAnswers(ours, theirs, rules, this.parts.config.maxSlotDistance).map((difference) => ({
      ...difference,
      reason: explain(name, difference, ours, theirs),
    }));
  }

  /** Null: it was not asked. */
  private async ask(
    { name, question }: Pick<ComparedCall, 'name' | 'question'>,
    timeoutMs?: number,
  ): Promise<ReferenceReply | null> {
    const { product, credits } = this.parts.priceOf(name);
    const products: readonly string[] = this.parts.config.reference.products;
    if (!this.parts.reference.has(question.kind) || !products.includes(product)) {
      this.skip('product');
      return null;
    }
    const bytes = this.parts.reference.sizeOf(question) + this.parts.config.maxBodyBytes;
    if (!(await this.parts.budget.take({ requests: 1, credits, bytes }))) {
      this.skip('budget');
      return null;
    }
    const reply = await this.parts.reference.ask(question, this.stopping.signal, timeoutMs);
    this.parts.budget.giveBack(bytes - reply.bytes);
    this.replies.with(reply.kind).add();
    return reply;
  }

  /** The answer of the reference for the client; null: ours is sent. */
  private askInstead(request: TappedRequest): { readonly reply: Promise<ReferenceReply | null> } | null {
    if (this.parts.config.answers !== 'reference') return null;
    const call = questionOf(request);
    if (call === null || (request.name === RPC_NAME && !this.drawsMethod(call.name))) return null;
    return { reply: this.ask(call, this.parts.config.answerWithinMs) };
  }

  readonly wants: Shadow['wants'] = (name) => {
    if (!isComparedRoute(name) || this.stopping.signal.aborted) return false;
    return this.parts.random.float() < (name === RPC_NAME ? this.greatestShare() : this.shareOf(name));
  };

  readonly begin: Shadow['begin'] = (request): Tapping | null => {
    const bodyBytes = request.body?.length ?? 0;
    if (bodyBytes > this.parts.config.maxBodyBytes) {
      this.skip('long');
      return null;
    }
    if (this.waiting.length >= this.parts.config.maxWaiting) {
      this.skip('full');
      return null;
    }
    const first = this.askInstead(request);
    const answered = (ours: WholeAnswer | null, reply: ReferenceReply | null) => {
      if (ours === null) this.skip('long');
      else {
        // Theirs is about as long as ours, until it is known.
        const theirBytes = reply === null ? ours.body.length : reply.kind === 'answer' ? reply.bytes : 0;
        const held = reply?.kind === 'answer' ? { ...reply, read: null } : reply;
        this.enqueue({ request, ours, reply: held, bytes: bodyBytes + ours.body.length + theirBytes });
      }
    };
    return {
      maxAnswerBytes: this.parts.config.maxBodyBytes,
      instead: first === null ? null : first.reply.then(wholeOf, () => null),
      answered: (ours) => {
        if (first === null) answered(ours, null);
        else void first.reply.then((reply) => reply !== null && answered(ours, reply)).catch(() => undefined);
      },
    };
  };

  idle(): Promise<void> {
    return new Promise((resolve) => {
      if (this.running === 0 && this.waiting.length === 0) return resolve();
      const wake = () => {
        this.idlers.delete(wake);
        resolve();
      };
      this.idlers.add(wake);
    });
  }

  stop(): void {
    this.stopping.abort(new Error('the daemon is stopping'));
    this.waiting.length = 0;
  }
}

export const createShadow = (parts: ShadowParts): Shadow => new Comparison(parts);

const readReply = ({ answer, read }: Extract<ReferenceReply, { kind: 'answer' }>): ReadAnswer =>
  read ?? readAnswer(answer);

function wholeOf(reply: ReferenceReply | null): WholeAnswer | null {
  return reply?.kind === 'answer' ? { status: reply.answer.status, body: reply.answer.text } : null;
}

function outcomeOf(differences: readonly ExplainedDifference[]): Outcome {
  if (differences.length === 0) return 'equal';
  return differences.every(({ reason }) => reason !== '') ? 'explained' : 'different';
}
