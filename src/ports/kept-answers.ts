import { type ServiceToken, serviceToken } from './service.ts';

/** A standard call that is about to be sent to an upstream. */
export interface KeptQuestion {
  readonly method: string;
  /** JSON text; null when absent. */
  readonly params: () => string | null;
}

/** Answers standard calls about the past from what this daemon keeps. */
export interface KeptAnswers {
  /**
   * The text of the result, or of the error object, as a node writes it; null: an upstream has to answer. A call that cannot be answered
   * here by its method or form is null at once. Never rejects.
   */
  answer(
    question: KeptQuestion,
  ): Promise<{ readonly resultText: string } | { readonly errorText: string } | null> | null;
}

/** Offered by the plugin `history`. */
export const keptAnswers: ServiceToken<KeptAnswers> = serviceToken('history.kept-answers');
