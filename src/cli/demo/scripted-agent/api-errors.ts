import process from 'node:process'

/** What Claude Code makes of an error of the Messages API: which it retries, how long, and what it says in the end. */
export interface ApiFailure {
  readonly retried: boolean
  /** `error` of an `api_retry` line. */
  readonly retryError: string
  /** `error` of the assistant line that says it gave up. */
  readonly error: string
  readonly errorType: string
  readonly text: string
}

const defaultRetries = 10

/** `CLAUDE_CODE_MAX_RETRIES`, else ten. */
export function maxRetries(): number {
  const text = process.env['CLAUDE_CODE_MAX_RETRIES']
  return text === undefined || text === '' ? defaultRetries : Number(text)
}

/** Doubles from half a second to half a minute; the real CLI adds up to a quarter by chance, the agent does not. */
export function retryDelayMs(attempt: number): number {
  return Math.min(500 * 2 ** (attempt - 1), 32_000)
}

export function apiFailure(status: number, options: { message: string; model: string }): ApiFailure {
  const { message, model } = options
  const server = `This is a server-side issue, usually temporary — try again in a moment. If it persists, check ${gateway()}.`
  switch (status) {
    case 401:
      return {
        retried: true,
        retryError: 'authentication_failed',
        error: 'authentication_failed',
        errorType: 'authentication_error',
        text: 'Invalid API key · Fix external API key',
      }
    case 404:
      return {
        retried: false,
        retryError: '',
        error: 'model_not_found',
        errorType: 'not_found_error',
        text: `There's an issue with the selected model (${model}). It may not exist or you may not have access to it. Run --model to pick a different model.`,
      }
    case 429:
      return {
        retried: true,
        retryError: 'rate_limit',
        error: 'rate_limit',
        errorType: 'rate_limit_error',
        text: `API Error: Request rejected (429) · ${message}`,
      }
    case 529:
      return {
        retried: true,
        retryError: 'overloaded',
        error: 'server_error',
        errorType: 'overloaded_error',
        text: `API Error: 529 ${message}. ${server}`,
      }
    default:
      if (status >= 500) {
        return {
          retried: true,
          retryError: 'server_error',
          error: 'server_error',
          errorType: 'api_error',
          text: `API Error: ${status} ${message}. ${server}`,
        }
      }
      return {
        retried: false,
        retryError: '',
        error: 'unknown',
        errorType: 'invalid_request_error',
        text: `API Error: ${status} ${message}`,
      }
  }
}

function gateway(): string {
  const base = process.env['ANTHROPIC_BASE_URL']
  return base === undefined || base === ''
    ? 'https://status.claude.com'
    : `your inference gateway (${new URL(base).host})`
}
