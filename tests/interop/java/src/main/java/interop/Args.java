package interop;

import java.util.Arrays;

/** The words of a request, one after the other. */
public final class Args {
    private final String[] words;
    private int next;

    public Args(String[] words) {
        this.words = words;
    }

    public String word() {
        if (next == words.length) {
            throw new IllegalArgumentException("more words are needed after " + String.join(" ", words));
        }
        return words[next++];
    }

    public String word(String otherwise) {
        return next < words.length ? word() : otherwise;
    }

    public long number() {
        return Long.parseLong(word());
    }

    public long number(long otherwise) {
        return next < words.length ? number() : otherwise;
    }

    public String rest() {
        return String.join(" ", Arrays.copyOfRange(words, next, words.length));
    }
}
