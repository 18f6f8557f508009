/** Structured log; fields first, message second (pino's order). Never log secrets. */
export interface Log {
  trace(fields: object, message: string): void;
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  fatal(fields: object, message: string): void;
  child(fields: object): Log;
}
