/** An error that is an ordinary answer to a caller. It has no stack, because to walk one takes longer than to find most of such answers. */
export class AnswerError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super(message, options);
    Error.stackTraceLimit = stackTraceLimit;
  }
}
