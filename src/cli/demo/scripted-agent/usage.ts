/** Tokens and money of a session, in the shapes of the CLI. */
export interface Tokens {
  readonly inputTokens: number
  readonly outputTokens: number
}

/** Made-up but fixed prices, in dollars per token: nothing is billed, and a budget can be reached in a test. */
const price = { input: 3e-6, output: 15e-6 }

export const noTokens: Tokens = { inputTokens: 0, outputTokens: 0 }

export function addTokens(left: Tokens, right: Tokens): Tokens {
  return {
    inputTokens: left.inputTokens + right.inputTokens,
    outputTokens: left.outputTokens + right.outputTokens,
  }
}

export function costUsd(tokens: Tokens): number {
  return tokens.inputTokens * price.input + tokens.outputTokens * price.output
}

/** `usage` of a result: this turn's tokens. */
export function usageLine(tokens: Tokens): object {
  return {
    input_tokens: tokens.inputTokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 0,
    output_tokens: tokens.outputTokens,
    output_tokens_details: { thinking_tokens: 0 },
    server_tool_use: { web_search_requests: 0, web_fetch_requests: 0 },
    service_tier: 'standard',
    cache_creation: { ephemeral_1h_input_tokens: 0, ephemeral_5m_input_tokens: 0 },
    inference_geo: '',
    iterations: [],
    speed: 'standard',
    fallback_credit: null,
  }
}

/** `modelUsage` of a result: everything since the session began, over all its processes. */
export function modelUsageLine(model: string, tokens: Tokens): object {
  if (tokens.inputTokens === 0 && tokens.outputTokens === 0) return {}
  return {
    [model]: {
      inputTokens: tokens.inputTokens,
      outputTokens: tokens.outputTokens,
      cacheReadInputTokens: 0,
      cacheCreationInputTokens: 0,
      webSearchRequests: 0,
      costUSD: costUsd(tokens),
      contextWindow: 200_000,
      maxOutputTokens: 32_000,
      thinkingTokens: 0,
    },
  }
}
