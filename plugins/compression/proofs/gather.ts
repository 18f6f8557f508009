/** Answers many askers of the same turn of the event loop together. */
export type Gather<Question, Answer> = (question: Question) => Promise<Answer>;

export interface GatherParts<Question, Answer> {
  /** Questions that are answered together at most. */
  readonly most: number;
  /** Fewer are asked one by one. */
  readonly fewest: number;
  one(question: Question): Promise<Answer>;
  /** In the order of the questions. When it fails, each is asked alone, and has an error of its own. */
  many(questions: readonly Question[]): Promise<readonly Answer[]>;
}

interface Waiting<Question, Answer> {
  readonly question: Question;
  readonly resolve: (answer: Answer | Promise<Answer>) => void;
}

/**
 * Requests that came in together are read from the sockets in one turn of the loop. What they ask is looked up when that turn is over, and
 * so never before a question was asked.
 */
export function createGather<Question, Answer>(parts: GatherParts<Question, Answer>): Gather<Question, Answer> {
  let waiting: Waiting<Question, Answer>[] = [];

  async function answer(asked: readonly Waiting<Question, Answer>[]): Promise<void> {
    let answers: readonly Answer[] | null = null;
    if (asked.length >= parts.fewest)
      answers = await parts.many(asked.map(({ question }) => question)).catch(() => null);
    for (const [i, { question, resolve }] of asked.entries()) {
      if (answers === null) resolve(parts.one(question));
      else resolve(answers[i] as Answer);
    }
  }

  function flush(): void {
    const all = waiting;
    waiting = [];
    for (let at = 0; at < all.length; at += parts.most) void answer(all.slice(at, at + parts.most));
  }

  return (question) =>
    new Promise((resolve) => {
      if (waiting.push({ question, resolve }) === 1) setImmediate(flush);
    });
}
