/* Trains a classifier of digits with a step that weft wrote: digits IMAGES LABELS PARAMETERS.
   PARAMETERS is read, trained for some epochs, and written again. */
#include <stdio.h>
#include <stdlib.h>
#include "train.h"

enum { COUNT = 256, PIXELS = 64, HIDDEN = 32, CLASSES = 10, BATCH = 32, EPOCHS = 10 };

static float images[COUNT][PIXELS], loss;
static int32_t labels[COUNT];
static struct {
    float b1[HIDDEN], b2[CLASSES], w1[PIXELS][HIDDEN], w2[HIDDEN][CLASSES];
} p;

static void transfer(const char *path, const char *mode, void *data, size_t size) {
    FILE *file = fopen(path, mode);
    size_t done = 0;
    if (file)
        done = *mode == 'r' ? fread(data, 1, size, file) : fwrite(data, 1, size, file);
    if (done != size) {
        fprintf(stderr, "cannot read or write %s\n", path);
        exit(1);
    }
    fclose(file);
}

int main(int count, char **names) {
    const float rate = 0.5f;
    if (count != 4)
        return 2;
    transfer(names[1], "rb", images, sizeof images);
    transfer(names[2], "rb", labels, sizeof labels);
    transfer(names[3], "rb", &p, sizeof p);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        for (int i = 0; i < COUNT; i += BATCH)
            train(p.b1, p.b2, p.w1[0], p.w2[0], images[i], labels + i, &rate,
                  &loss, p.b1, p.b2, p.w1[0], p.w2[0]);
        printf("%d %.6f\n", epoch, loss);
    }
    transfer(names[3], "wb", &p, sizeof p);
    return 0;
}
